package system

import (
	"encoding/json"
	"testing"
)

func TestReadClaimOfBothShapes(t *testing.T) {
	t.Parallel()
	one := `{"id": 7, "queue": "q", "payload": "a b", "lease_token": "t-7", "headers": [{"name": "id", "value": "\"}"}],
		"last_failure": {"id": 9, "reason": "x"}, "retry_after": null, "retry_count": -1.5e3, "declared": false}`
	for body, want := range map[string]int{
		`{"claimed": true, "message": ` + one + `}`:                    1,
		`{"messages": [` + one + `, ` + one + ` ], "claimed": true}`:   2,
		`{"claimed": false, "message": null}`:                          0,
		`{"claimed":false,"messages":[]}`:                              0,
		` { "added_later" : {"messages":[1]} , "messages" : [ ] } `:    0,
		`{"claimed":true,"messages":[` + one + `],"more":["\\", "]"]}`: 1,
	} {
		client := &Client{}
		if err := client.readClaim([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if len(client.held) != want || len(client.payload) != want {
			t.Errorf("%s: %d messages, want %d", body, len(client.held), want)
		}
		for i, held := range client.held {
			if held != (lease{id: 7, token: "t-7"}) || string(client.payload[i]) != "a b" {
				t.Errorf("%s: got %+v %q", body, held, client.payload[i])
			}
		}
	}
}

func TestReadClaimRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, `[]`, `{`, `{"messages": [{]}`, `{"messages": [{"id": 1, "payload": "x"}]}`,
		`{"message": {"payload": "x", "lease_token": "t"}}`, `{"messages": [{"id": "7", "lease_token": "t"}]}`, `{"a": "`,
	} {
		if err := (&Client{}).readClaim([]byte(body)); err == nil {
			t.Errorf("%q was accepted", body)
		}
	}
}

func TestCountSettled(t *testing.T) {
	t.Parallel()
	body := `{"results": [{"id": 1, "status": 200, "message": {"status": "succeeded"}},
		{"id": 2, "problem": {"status": 409}, "status": 409}, {"status": 200}]}`
	if got, err := countSettled([]byte(body)); err != nil || got != 2 {
		t.Errorf("got %d, %v, want 2", got, err)
	}
}

func FuzzScannerSkipsWhatIsJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `[1,2.5e-3,"a\"b",null,true,{"x":[]}]`, `""`, ` 0 `, `{"a":{"b":"\\"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &scanner{text: text}
		err := s.skip()
		if !json.Valid(text) {
			return // It must end, and not panic.
		}
		if err != nil || s.peek() != 0 {
			t.Errorf("valid JSON %q: stopped at %d, %v", text, s.at, err)
		}
	})
}
