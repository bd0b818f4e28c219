package scenario

import (
	"context"

	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

// peers are the systems that every scenario of plain work compares with.
func (b *Bench) peers() []system.Kind {
	pgq := system.PgQ
	pgq.Missing = func(ctx context.Context) string { return system.PgQMissing(ctx, b.postgres.URL("postgres")) }
	return []system.Kind{
		system.River, system.RiverDefaults, system.Plain, pgq, system.Graphile(b.Cache), system.RabbitMQ, system.NATS,
	}
}

// compare runs each of the kinds that is wanted and adds its row.
func (b *Bench) compare(
	ctx context.Context, result *report.Result, kinds []system.Kind,
	run func(context.Context, system.Kind) (report.Figures, error),
) {
	for _, kind := range kinds {
		if b.wants(kind) {
			result.Rows = append(result.Rows, b.row(ctx, kind, report.Peer, run))
		}
	}
}
