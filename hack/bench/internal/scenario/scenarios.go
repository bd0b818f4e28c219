package scenario

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/report"
)

// Scenario is one measurement.
type Scenario struct {
	ID, Title string
	Run       func(context.Context, *Bench, *report.Result) error
}

// All are the scenarios in the order they run.
var All = []Scenario{
	{"P1", "One message per request: enqueue, claim, acknowledge; 64 clients, 200-byte payloads", singles},
	{"P2", "Batches of 100: enqueue, claim, acknowledge; 200-byte payloads", batches},
	{"P3", "P1 and P2 with a backlog of pending messages and dead letters", withBacklog},
	{"P4", "P2 while a transaction holds the xmin horizon", horizon},
	{"P5", "1,000 messages per second to workers that wait: from enqueue to delivery", latency},
	{"P6", "Depth of all queues of a full database", depths},
	{"P8", "Idle queues and long polls", idle},
}

// Run runs one scenario.
func (b *Bench) Run(ctx context.Context, s Scenario) (*report.Result, error) {
	result := &report.Result{ID: s.ID, Title: s.Title}
	b.Say("%s  %s", s.ID, s.Title)
	return result, s.Run(ctx, b, result)
}
