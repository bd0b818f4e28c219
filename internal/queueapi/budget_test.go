package queueapi

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestBudgetIsSharedAndGivenBack(t *testing.T) {
	t.Parallel()
	b := &budget{limit: 10}
	read := func(text string) (*spender, error) {
		s := &spender{budget: b, from: strings.NewReader(text)}
		_, err := io.ReadAll(s)
		return s, err
	}
	first, err := read("1234567890")
	if err != nil {
		t.Fatal(err)
	}
	second, err := read("1")
	if p := new(problem); !errors.As(err, &p) || p.Status != 503 {
		t.Errorf("a body above the budget: %v", err)
	}
	first.giveBack()
	second.giveBack()
	if used := b.used.Load(); used != 0 {
		t.Errorf("%d bytes are not given back", used)
	}
	if _, err := read("123"); err != nil {
		t.Errorf("after the others gave back: %v", err)
	}
}
