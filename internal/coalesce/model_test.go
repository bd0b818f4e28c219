package coalesce_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"deadletter.dev/deadletter/internal/coalesce"
)

// action is a step of the model test: a call of a weight is made, a call's context ends, or a flush does.
type action struct {
	kind   string
	key    string
	weight int
	pick   int
}

func actions() *rapid.Generator[[]action] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		return action{
			kind:   rapid.SampledFrom([]string{"call", "call", "call", "cancel", "answer", "answer", "refuse"}).Draw(t, "kind"),
			key:    rapid.SampledFrom([]string{"orders", "mails"}).Draw(t, "key"),
			weight: rapid.IntRange(0, 6).Draw(t, "weight"),
			pick:   rapid.IntRange(0, 100).Draw(t, "pick"),
		}
	}), 1, 40)
}

// modelCall is what a call is known to have come to.
type modelCall struct {
	in, weight int
	cancel     context.CancelFunc
	done       <-chan answer
	ended      bool
}

// model is what a Group should do, said without any concurrency.
type model struct {
	options coalesce.Options[int]
	bench   *bench
	calls   []*modelCall
	waiting map[string][]*modelCall
	running map[string][][]*modelCall
	flushes map[*modelCall]flushed
}

func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		options := coalesce.Options[int]{
			MaxWeight: rapid.SampledFrom([]int{0, 1, 5, 8}).Draw(rt, "max weight"),
			InFlight:  rapid.IntRange(1, 3).Draw(rt, "in flight"),
		}
		steps := actions().Draw(rt, "actions")
		var problem error
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				options: options, waiting: map[string][]*modelCall{}, running: map[string][][]*modelCall{},
				flushes: map[*modelCall]flushed{},
			}
			options.Weight = func(in int) int { return m.calls[in].weight }
			m.bench = newBench(t, options)
			problem = m.run(t, steps)
			m.release()
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

func (m *model) run(t *testing.T, steps []action) error {
	t.Helper()
	for i, step := range steps {
		var err error
		switch step.kind {
		case "call":
			err = m.call(t.Context(), step)
		case "cancel":
			err = m.cancel(step)
		case "answer":
			err = m.end(step, nil)
		default:
			err = m.end(step, errAny)
		}
		if err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, step, err)
		}
	}
	return m.drain()
}

func (m *model) call(ctx context.Context, step action) error {
	c := &modelCall{in: len(m.calls), weight: step.weight}
	m.calls = append(m.calls, c)
	ctx, c.cancel = context.WithCancel(ctx)
	c.done = m.bench.do(ctx, step.key, c.in)
	m.waiting[step.key] = append(m.waiting[step.key], c)
	return m.start(step.key)
}

// start starts the flush that is due, if any.
func (m *model) start(key string) error {
	if len(m.running[key]) < m.options.InFlight && len(m.waiting[key]) > 0 {
		taken, weight := 1, m.waiting[key][0].weight
		for _, c := range m.waiting[key][1:] {
			if weight += c.weight; m.options.MaxWeight > 0 && weight > m.options.MaxWeight {
				break
			}
			taken++
		}
		batch := slices.Clone(m.waiting[key][:taken])
		m.waiting[key] = m.waiting[key][taken:]
		m.running[key] = append(m.running[key], batch)
		synctest.Wait()
		select {
		case flush := <-m.bench.flushes:
			if flush.key != key || !slices.Equal(flush.calls, inputs(batch)) {
				return fmt.Errorf("flush of %v of %s, want %v of %s", flush.calls, flush.key, inputs(batch), key)
			}
			m.flushes[batch[0]] = flush
		default:
			return fmt.Errorf("no flush of %v", inputs(batch))
		}
	}
	return m.check()
}

func inputs(batch []*modelCall) []int {
	ins := make([]int, len(batch))
	for i, c := range batch {
		ins[i] = c.in
	}
	return ins
}

// cancel ends the context of some call.
func (m *model) cancel(step action) error {
	if len(m.calls) == 0 {
		return nil
	}
	c := m.calls[step.pick%len(m.calls)]
	c.cancel()
	if c.ended || m.flushes[c].outcome != nil {
		return m.check() // Answered already, or stays to lead its flush.
	}
	for key, waiting := range m.waiting {
		m.waiting[key] = slices.DeleteFunc(waiting, func(other *modelCall) bool { return other == c })
	}
	if err := m.returned(c, answer{Err: context.Canceled}); err != nil {
		return err
	}
	return m.check()
}

// end ends some flush of the key.
func (m *model) end(step action, outcome error) error {
	running := m.running[step.key]
	if len(running) == 0 {
		return nil
	}
	i := step.pick % len(running)
	batch := running[i]
	m.running[step.key] = slices.Delete(running, i, i+1)
	flush := m.flushes[batch[0]]
	delete(m.flushes, batch[0])
	flush.end(outcome)
	for _, c := range batch {
		want := answer{Err: outcome}
		if outcome == nil {
			want.Out = 2 * c.in
		}
		if c.ended {
			continue
		}
		if err := m.returned(c, want); err != nil {
			return err
		}
	}
	return m.start(step.key)
}

func (m *model) returned(c *modelCall, want answer) error {
	synctest.Wait()
	c.ended = true
	select {
	case got := <-c.done:
		if got != want {
			return fmt.Errorf("call %d returned %+v, want %+v", c.in, got, want)
		}
		return nil
	default:
		return fmt.Errorf("call %d has not returned %+v", c.in, want)
	}
}

// check looks for what should not be there.
func (m *model) check() error {
	synctest.Wait()
	select {
	case flush := <-m.bench.flushes:
		return fmt.Errorf("flush of %v out of turn", flush.calls)
	default:
	}
	for _, c := range m.calls {
		if len(c.done) > 0 {
			return fmt.Errorf("call %d returned %+v before it should", c.in, <-c.done)
		}
	}
	busy := 0
	for _, running := range m.running {
		busy += min(len(running), 1)
	}
	if keys := m.bench.Keys(); keys != busy {
		return fmt.Errorf("%d keys remembered, want %d", keys, busy)
	}
	return nil
}

// drain ends flushes until there are none.
func (m *model) drain() error {
	for _, key := range []string{"orders", "mails"} {
		for len(m.running[key]) > 0 {
			if err := m.end(action{key: key}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// release lets go of everything that still waits, which it does only after a failure.
func (m *model) release() {
	for _, c := range m.calls {
		c.cancel()
	}
	for _, flush := range m.flushes {
		close(flush.outcome)
	}
	for synctest.Wait(); len(m.bench.flushes) > 0; synctest.Wait() {
		close((<-m.bench.flushes).outcome)
	}
}
