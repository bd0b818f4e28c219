package queueapi

import (
	"context"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// Backend is what the data plane needs of the store.
type Backend interface {
	store.Engine
	Letters

	// Queues returns queues by name, after afterName.
	Queues(ctx context.Context, afterName string, limit int) ([]store.QueueInfo, error)
	// Queue returns one queue.
	Queue(ctx context.Context, name string) (store.QueueInfo, error)
	Signals
	Replays
	Remover
	Maintainer
	Prober
}

// Letters is what reads dead letters.
type Letters interface {
	// DeadLetters returns a page of dead letters, newest death first.
	DeadLetters(ctx context.Context, queue string, filter store.DeadLetterFilter, after store.DeadLetterCursor, limit int,
	) (store.DeadLetterPage, error)
	// DeadLetter returns one dead letter, or store.ErrNotFound when the message is not dead.
	DeadLetter(ctx context.Context, queue string, id int64) (store.DeadLetter, error)
	// DeadLetterGroups returns the groups of a queue's dead letters, largest first.
	DeadLetterGroups(ctx context.Context, queue string, limit int) ([]store.Group, error)
}

// Signals is what claims that find nothing need of the store.
type Signals interface {
	// RetryAfter is how long a queue hands out nothing because its circuit breaker is open.
	RetryAfter(ctx context.Context, queue string) (time.Duration, error)
	// ReadyQueues returns those of the named queues that have something to claim now.
	ReadyQueues(ctx context.Context, names []string) ([]string, error)
}

// Replays is what tells of replays.
type Replays interface {
	// Runs returns replay runs of a queue, newest first, before a run's id or from the newest on.
	Runs(ctx context.Context, queue string, before int64, limit int) ([]store.Run, error)
	// Run returns one run of a queue, or store.ErrNotFound.
	Run(ctx context.Context, queue string, id int64) (store.Run, error)
	// RunItems returns letters of a run in the order of their deaths, after a position.
	RunItems(ctx context.Context, id, after int64, limit int) ([]store.RunItem, error)
	// Revision returns the payload of a message as it was before an edit, or store.ErrNotFound.
	Revision(ctx context.Context, queue string, id int64, number int) ([]byte, error)
}

// Remover is what removes messages for good because somebody asks for it.
type Remover interface {
	// Discard removes one dead letter and returns it as it was.
	Discard(ctx context.Context, queue string, id int64) (message.Message, error)
	// Purge removes the messages that have had a status since before a point in time, until ctx ends.
	Purge(ctx context.Context, queue string, scope message.Status, before time.Time) (store.PurgeResult, error)
}

// Maintainer is what the background loops need of the store.
type Maintainer interface {
	Notifier

	// ExpireLeases fails up to limit messages whose lease has run out and returns how many.
	ExpireLeases(ctx context.Context, limit int) (int, error)
	// ExpireMessages makes up to about limit pending messages whose time to live has passed dead letters, and returns how
	// many.
	ExpireMessages(ctx context.Context, limit int) (int, error)
	// EnforceRetention removes up to limit messages of each kind that nothing keeps any longer.
	EnforceRetention(ctx context.Context, limit int) (store.RetentionResult, error)
	// RotateLog opens a new segment of the log when it is time, and frees those that nothing is kept in.
	RotateLog(ctx context.Context, rotation store.Rotation) (store.RotationResult, error)
	// FoldDepth folds the deltas of the depth counters.
	FoldDepth(ctx context.Context) error
	// FoldOutcomes brings replay runs up to date with what became of their messages, up to limit, and returns how many.
	FoldOutcomes(ctx context.Context, limit int) (int, error)
	// JudgeBreakers records how messages ended here, and returns the circuit breakers that have changed by it.
	JudgeBreakers(ctx context.Context) ([]store.BreakerChange, error)
}

// Prober is what readiness and the metrics need of the store.
type Prober interface {
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	// CheckSchema returns an error that matches store.ErrSchema when the database has another schema version.
	CheckSchema(ctx context.Context) error
	// PoolStats describes the connection pool.
	PoolStats() store.PoolStats
}
