package system

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/load"
)

// System is a queue that runs.
type System interface {
	load.System
	// Processes are the process ids of its servers other than Postgres; their descendants count too.
	Processes() []int
	Close() error
}

// Setup describes what a system is to be ready for.
type Setup struct {
	// Database is the address of an empty database of its own, for systems on Postgres.
	Database string
	// Clients is how many sessions will be open at once.
	Clients int
	// Batch is how many messages come at once.
	Batch int
}

// Kind is a system that can be started.
type Kind struct {
	Name string
	// About says in one line how it is set up.
	About string
	// Postgres tells that it keeps its messages in the Postgres server of the run.
	Postgres bool
	// Window bounds the messages in it at once, where it pushes: what its workers take, and enough to fetch more. A longer
	// queue would only lengthen its latencies.
	Window int64
	// Missing tells why it cannot run on this machine, or nothing.
	Missing func(ctx context.Context) string
	Start   func(ctx context.Context, setup Setup) (System, error)
}
