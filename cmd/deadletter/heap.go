package main

import "os"

// heapFloor is memory that the API has but never touches, so that the system never provides it: the garbage collector
// takes it for live. A server of small messages has a live heap of a few MiB, which it would otherwise collect many
// times a second. A higher GOGC would do the same there, but would also multiply the heap of a server that holds large
// bodies, whose memory is bounded.
const heapFloor = 32 << 20

// newHeapFloor is nil when the environment says how to collect garbage.
func newHeapFloor() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, heapFloor)
}
