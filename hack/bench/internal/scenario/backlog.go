package scenario

import "deadletter.dev/deadletter/hack/bench/internal/system"

// backlog is the product with very many messages.
type backlog struct {
	system *system.Deadletter
}
