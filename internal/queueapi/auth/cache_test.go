package auth

import (
	"testing"
	"time"
)

func TestCacheExpiresAndStaysBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := newCache[int, int](func() time.Time { return now }, 3)
	c.put(1, 10, time.Second)
	c.put(2, 20, time.Minute)
	c.put(3, 30, time.Minute)
	if value, ok := c.get(1); !ok || value != 10 {
		t.Fatalf("got %d, %t", value, ok)
	}
	now = now.Add(time.Second)
	if _, ok := c.get(1); ok {
		t.Error("an entry outlives its time")
	}
	c.put(4, 40, time.Minute)
	for key := 2; key <= 4; key++ {
		if _, ok := c.get(key); !ok {
			t.Errorf("%d made room though another had expired", key)
		}
	}
	for key := range 100 {
		c.put(key, key, time.Minute)
	}
	if len(c.entries) > 3 {
		t.Errorf("%d entries, want at most 3", len(c.entries))
	}
	if _, ok := c.get(99); !ok {
		t.Error("the newest entry is not kept")
	}
}
