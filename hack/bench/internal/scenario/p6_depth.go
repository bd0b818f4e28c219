package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/measure"
	"deadletter.dev/deadletter/hack/bench/internal/report"
	"deadletter.dev/deadletter/hack/bench/internal/system"
)

const (
	depthRequests  = 200
	depthLimit     = 30 * time.Second
	exactAfter     = "exact after ms"
	statementTime  = "database ms"
	depthStatement = "statements"
)

// depths is P6: all the queues of a full database in one request.
func depths(ctx context.Context, b *Bench, result *report.Result) error {
	result.Columns = []report.Column{
		report.P50, report.P99, report.Max, report.Other(statementTime), report.Other(depthStatement),
		report.Other(exactAfter),
	}
	result.Chart = report.Chart{Unit: "ms per request, median", Value: report.P50.Value}
	full, err := b.loadedBacklog(ctx)
	if err != nil {
		return err
	}
	var pending, dead int64
	for queue := range full.pending {
		pending, dead = pending+full.pending[queue], dead+full.dead[queue]
	}
	result.Title = fmt.Sprintf("Depth of all %d queues in one request: %s pending, %s dead", len(full.pending),
		report.Number(float64(pending)), report.Number(float64(dead)))
	figures, err := b.depthFigures(ctx, full)
	if err != nil {
		return err
	}
	result.Rows = append(result.Rows, report.Row{Name: system.OursName, Role: report.Ours, Figures: figures})
	result.AtMost("request: median at most 5 ms", 5, figures.P50Millis)
	result.AtMost("exact within 1 s", 1000, figures.Other[exactAfter])
	return nil
}

func (b *Bench) depthFigures(ctx context.Context, full *backlog) (figures report.Figures, err error) {
	client, err := full.system.On(bigQueue).Connect(ctx)
	if err != nil {
		return figures, err
	}
	defer client.Close()
	exact, err := full.exactAfterWrite(ctx, client)
	if err != nil {
		return figures, err
	}
	before, err := full.site.look(ctx)
	if err != nil {
		return figures, err
	}
	var times measure.Histogram
	for range depthRequests {
		began := time.Now()
		if _, err := client.Get(ctx, "/queues?limit=100"); err != nil {
			return figures, err
		}
		times.Record(time.Since(began))
	}
	after, err := full.site.look(ctx)
	if err != nil {
		return figures, err
	}
	spent := after.written.Minus(before.written)
	b.Say("depth: p50 %.1f ms, exact %.0f ms after the last write", millis(times.Quantile(0.5)), millis(exact))
	return report.Figures{
		P50Millis: millis(times.Quantile(0.5)), P99Millis: millis(times.Quantile(0.99)), MaxMillis: millis(times.Max()),
		Other: map[string]float64{
			exactAfter:     millis(exact),
			statementTime:  millis(spent.StatementTime) / depthRequests,
			depthStatement: float64(spent.Statements) / depthRequests,
		},
	}, nil
}

// exactAfterWrite enqueues one more batch and measures how long it takes until every queue's depth is what it must be.
func (l *backlog) exactAfterWrite(ctx context.Context, client *system.Client) (time.Duration, error) {
	if err := client.Enqueue(ctx, load.Backlog(backlogBatch)); err != nil {
		return 0, err
	}
	l.pending[bigQueue] += backlogBatch
	return l.exactAfter(ctx, client)
}

// check fails unless the queues hold exactly what they must.
func (l *backlog) check(ctx context.Context) error {
	client, err := l.system.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = l.exactAfter(ctx, client)
	return err
}

// exactAfter measures how long it takes from now until every queue's depth is what it must be.
func (l *backlog) exactAfter(ctx context.Context, client *system.Client) (time.Duration, error) {
	written := time.Now()
	for {
		wrong, err := l.wrongDepth(ctx, client)
		took := time.Since(written)
		switch {
		case err != nil:
			return took, err
		case wrong == nil:
			return took, nil
		case took > depthLimit:
			return took, fmt.Errorf("depth is still wrong after %v: %w", depthLimit, wrong)
		}
	}
}

// wrongDepth returns how the depth of a queue differs from what was loaded, or nil.
func (l *backlog) wrongDepth(ctx context.Context, client *system.Client) (wrong, err error) {
	body, err := client.Get(ctx, "/queues?limit=100")
	if err != nil {
		return nil, err
	}
	var page struct {
		Queues []struct {
			Name  string `json:"name"`
			Depth struct {
				Pending int64 `json:"pending"`
				Dead    int64 `json:"dead"`
			} `json:"depth"`
		} `json:"queues"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	seen := 0
	for _, queue := range page.Queues {
		pending, ours := l.pending[queue.Name]
		if !ours {
			continue
		}
		seen++
		if dead := l.dead[queue.Name]; queue.Depth.Pending != pending || queue.Depth.Dead != dead {
			return fmt.Errorf("%s: %d pending and %d dead, not %d and %d", queue.Name, queue.Depth.Pending,
				queue.Depth.Dead, pending, dead), nil
		}
	}
	if seen != len(l.pending) {
		return errors.New("queues are missing"), nil
	}
	return nil, nil
}
