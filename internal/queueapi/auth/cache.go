package auth

import (
	"sync"
	"time"
)

// cache keeps answers for a time. It is bounded: when it is full, what has expired is dropped, and if nothing has, some
// entry or other.
type cache[K comparable, V any] struct {
	now func() time.Time
	max int

	mu      sync.Mutex
	entries map[K]entry[V]
}

type entry[V any] struct {
	value V
	until time.Time
}

func newCache[K comparable, V any](now func() time.Time, most int) *cache[K, V] {
	return &cache[K, V]{now: now, max: most, entries: map[K]entry[V]{}}
}

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || !c.now().Before(e.until) {
		return value, false
	}
	return e.value, true
}

func (c *cache[K, V]) put(key K, value V, holds time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= c.max {
		c.makeRoom()
	}
	c.entries[key] = entry[V]{value, c.now().Add(holds)}
}

func (c *cache[K, V]) makeRoom() {
	now := c.now()
	for key, e := range c.entries {
		if !now.Before(e.until) {
			delete(c.entries, key)
		}
	}
	for key := range c.entries {
		if len(c.entries) < c.max {
			return
		}
		delete(c.entries, key)
	}
}
