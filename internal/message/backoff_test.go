package message

import (
	"testing"
	"time"
)

func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	standard := DefaultSettings().Backoff
	cases := map[string]struct {
		backoff Backoff
		n       int
		jitter  float64
		want    time.Duration
	}{
		"first":               {standard, 1, 0, 2 * time.Second},
		"second":              {standard, 2, 0, 4 * time.Second},
		"third":               {standard, 3, 0, 8 * time.Second},
		"fourth":              {standard, 4, 0, 16 * time.Second},
		"last before the cap": {standard, 11, 0, 2048 * time.Second},
		"capped":              {standard, 12, 0, time.Hour},
		"never overflows":     {standard, 32767, 0, time.Hour},
		"constant":            {Backoff{Initial: time.Second, FactorPercent: 100, Max: time.Hour}, 1 << 30, 0, time.Second},
		"factor 1.5":          {Backoff{Initial: 2 * time.Second, FactorPercent: 150, Max: time.Hour}, 3, 0, 4500 * time.Millisecond},
		"initial above max":   {Backoff{Initial: time.Hour, FactorPercent: 200, Max: time.Minute}, 1, 0, time.Minute},
		"jitter low":          {Backoff{Initial: 10 * time.Second, FactorPercent: 200, Max: time.Hour, JitterPercent: 20}, 1, 0, 8 * time.Second},
		"jitter middle":       {Backoff{Initial: 10 * time.Second, FactorPercent: 200, Max: time.Hour, JitterPercent: 20}, 1, 0.5, 10 * time.Second},
		"jitter never exceeds": {
			Backoff{Initial: time.Hour, FactorPercent: 200, Max: time.Hour, JitterPercent: 100}, 1, 0.999, time.Hour,
		},
		"zero": {Backoff{FactorPercent: 200, Max: time.Hour}, 5, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.backoff.Delay(c.n, c.jitter); got != c.want {
				t.Fatalf("delay is %s, want %s", got, c.want)
			}
		})
	}
}
