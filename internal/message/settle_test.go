package message

import (
	"testing"
	"time"
)

func TestFail(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	wait, negative, forever := 90*time.Second, -time.Hour, 1000*24*time.Hour
	cases := map[string]struct {
		message Message
		report  Report
		status  Status
		retries int
		after   time.Duration
	}{
		"first of three":       {Message{MaxRetries: 3}, Report{}, Pending, 1, 2 * time.Second},
		"second of three":      {Message{MaxRetries: 3, RetryCount: 1}, Report{}, Pending, 2, 4 * time.Second},
		"third of three":       {Message{MaxRetries: 3, RetryCount: 2}, Report{}, Dead, 3, 0},
		"only one":             {Message{MaxRetries: 1}, Report{}, Dead, 1, 0},
		"permanent":            {Message{MaxRetries: 3}, Report{Permanent: true}, Dead, 1, 0},
		"worker's wait":        {Message{MaxRetries: 3}, Report{RetryAfter: &wait}, Pending, 1, wait},
		"negative wait":        {Message{MaxRetries: 3}, Report{RetryAfter: &negative}, Pending, 1, 0},
		"wait beyond reason":   {Message{MaxRetries: 3}, Report{RetryAfter: &forever}, Pending, 1, MaxDelay},
		"wait does not revive": {Message{MaxRetries: 1}, Report{RetryAfter: &wait}, Dead, 1, 0},
		"last delivery":        {Message{MaxRetries: 10, DeliveryCount: 10}, Report{}, Dead, 1, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := DefaultSettings().Fail(c.message, c.report, now, 0)
			if got.Status != c.status || got.RetryCount != c.retries {
				t.Fatalf("verdict is %+v", got)
			}
			if c.status == Pending && got.RetryAfter.Sub(now) != c.after {
				t.Fatalf("retry after %s, want %s", got.RetryAfter.Sub(now), c.after)
			}
			if c.status == Dead && !got.RetryAfter.IsZero() {
				t.Fatalf("a dead letter retries after %s", got.RetryAfter)
			}
		})
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	settings := DefaultSettings()
	lease := &Lease{Consumer: Consumer{Instance: "pod-1", Version: "2"}}
	got := settings.Expire(Message{MaxRetries: 3, DeliveryCount: 1, Lease: lease}, time.Time{}, 0)
	if got.Status != Pending || got.Failure.Category != Timeout || got.Failure.Consumer != lease.Consumer {
		t.Fatalf("verdict is %+v", got)
	}
	got = settings.Expire(Message{MaxRetries: 10, DeliveryCount: 10}, time.Time{}, 0)
	if got.Status != Dead || got.Failure.Category != Poison {
		t.Fatalf("verdict is %+v", got)
	}
}
