package scenario

import (
	"slices"
	"testing"
	"time"
)

func TestLastThird(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rates   []float64
		sending int
		want    float64
	}{
		{[]float64{9, 9, 9, 9, 3, 5}, 6, 4},
		// What ended after the sending is not part of it.
		{[]float64{9, 9, 9, 9, 3, 5, 1000}, 6, 4},
		{[]float64{7}, 60, 7},
		{nil, 60, 0},
	} {
		if got := lastThird(test.rates, test.sending); got != test.want {
			t.Errorf("%v of %d s: got %v, want %v", test.rates, test.sending, got, test.want)
		}
	}
}

func TestFirstSeconds(t *testing.T) {
	t.Parallel()
	rates := []float64{1, 2, 3}
	if got := firstSeconds(rates, 2*time.Second); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("got %v", got)
	}
	if got := firstSeconds(rates, time.Minute); !slices.Equal(got, rates) {
		t.Errorf("got %v", got)
	}
}
