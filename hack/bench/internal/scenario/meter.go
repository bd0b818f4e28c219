package scenario

import (
	"context"
	"errors"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/measure"
	"deadletter.dev/deadletter/hack/bench/internal/report"
)

// usage is what had been used at one moment.
type usage struct {
	at                       time.Time
	written                  measure.Written
	servers, postgres, owned time.Duration
}

// look reads what has been used so far.
func (s *site) look(ctx context.Context) (usage, error) {
	var now usage
	var errs [4]error
	now.written, errs[0] = measure.ReadWritten(ctx, s.conn)
	now.postgres, errs[1] = measure.ProcessCPU(s.bench.postgres.PID())
	now.servers, errs[2] = measure.ProcessCPU(s.Processes()...)
	now.owned, errs[3] = measure.OwnCPU()
	now.at = time.Now()
	return now, errors.Join(errs[:]...)
}

// spent fills in the figures per message of what was used since before.
func (s *site) spent(ctx context.Context, before usage, figures *report.Figures) error {
	after, err := s.look(ctx)
	if err != nil {
		return err
	}
	messages := float64(figures.Messages)
	micros := func(d time.Duration) float64 {
		return report.Ratio(float64(d)/float64(time.Microsecond), messages)
	}
	figures.ServerCPUMicros = micros(after.servers - before.servers)
	figures.ClientCPUMicros = micros(after.owned - before.owned)
	if !s.onPostgres {
		return nil
	}
	written := after.written.Minus(before.written)
	figures.WALBytesPerMessage = report.Ratio(float64(written.WALBytes), messages)
	figures.TransactionsPerMessage = report.Ratio(float64(written.Transactions), messages)
	figures.StatementsPerMessage = report.Ratio(float64(written.Statements), messages)
	figures.PostgresCPUMicros = micros(after.postgres - before.postgres)
	figures.ServerCPUMicros += figures.PostgresCPUMicros
	return nil
}

// millis is a duration as figures have it.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
