package message

import "testing"

func TestNormalise(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"order 17 not found":                              "order <id> not found",
		`no customer "Jane Doe" in 'eu'`:                  "no customer <quoted> in <quoted>",
		"dial tcp 10.2.3.4:5432: connection refused":      "dial tcp <address>: connection refused",
		"dial tcp [fe80::1]:80: timeout":                  "dial tcp <address>: timeout",
		"lookup db.shop.svc:5432 failed":                  "lookup <address> failed",
		"GET https://api.example/v1/orders/7?x=1: 503":    "get <url> <id>",
		"job 7b0c1f9e-3f6f-4c1a-9d5f-0a1b2c3d4e5f failed": "job <uuid> failed",
		"at 2026-11-30T12:00:00.5Z: gone":                 "at <time>: gone",
		"pointer 0xDEADBEEF is nil":                       "pointer <hex> is nil",
		"mail to jane.doe+x@shop.example bounced":         "mail to <email> bounced",
		"  Spaces\n and   CASE ":                          "spaces and case",
		"":                                                "",
	}
	for reason, want := range cases {
		if got := Normalise(reason); got != want {
			t.Errorf("%q became %q, want %q", reason, got, want)
		}
	}
}

func TestFingerprintTellsCausesApart(t *testing.T) {
	t.Parallel()
	same := Fingerprint(External, "order 1 timed out")
	if Fingerprint(External, "order 2 timed out") != same {
		t.Error("one cause has two fingerprints")
	}
	for _, other := range []string{
		Fingerprint(Validation, "order 1 timed out"), Fingerprint(External, "order 1 refused"),
	} {
		if other == same {
			t.Error("two causes have one fingerprint")
		}
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add("order 17 'x' at 10.0.0.1:80")
	f.Fuzz(func(t *testing.T, reason string) {
		once := Normalise(reason)
		if len(Fingerprint(Unknown, reason)) != 16 || len(once) > 16*len(reason)+16 {
			t.Errorf("%q grew to %d bytes", reason, len(once))
		}
	})
}
