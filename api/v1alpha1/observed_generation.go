package v1alpha1

// GetObservedGeneration returns the generation that status is about.
func (b *Broker) GetObservedGeneration() int64 {
	return b.Status.ObservedGeneration
}

// SetObservedGeneration says which generation status is about.
func (b *Broker) SetObservedGeneration(generation int64) {
	b.Status.ObservedGeneration = generation
}

// GetObservedGeneration returns the generation that status is about.
func (q *Queue) GetObservedGeneration() int64 {
	return q.Status.ObservedGeneration
}

// SetObservedGeneration says which generation status is about.
func (q *Queue) SetObservedGeneration(generation int64) {
	q.Status.ObservedGeneration = generation
}

// GetObservedGeneration returns the generation that status is about.
func (r *Replay) GetObservedGeneration() int64 {
	return r.Status.ObservedGeneration
}

// SetObservedGeneration says which generation status is about.
func (r *Replay) SetObservedGeneration(generation int64) {
	r.Status.ObservedGeneration = generation
}
