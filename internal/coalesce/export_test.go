package coalesce

// Keys counts the keys that a Group remembers.
func (g *Group[K, In, Out]) Keys() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines)
}
