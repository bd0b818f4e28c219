package storetest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// The model counts time in minutes that pass only by Elapse. Everything stored is whole minutes, so that the moments
// that the real clock adds while the test runs never decide anything: what is due at minute n is due once n have
// passed.
const (
	modelVisibility    = 10
	modelMaxDeliveries = 4
)

func modelSettings() message.Settings {
	settings := message.DefaultSettings()
	settings.Backoff = message.Backoff{Initial: time.Minute, FactorPercent: 200, Max: 8 * time.Minute}
	settings.VisibilityTimeout = modelVisibility * time.Minute
	settings.MaxDeliveries = modelMaxDeliveries
	settings.Retention.Succeeded, settings.Retention.Dead = 365*24*time.Hour, 365*24*time.Hour
	return settings
}

// modelMessage is what a message must be. order breaks ties between messages that become ready at the same minute: the
// number of the operation that made it ready.
type modelMessage struct {
	id                                      int64
	status                                  message.Status
	retries, maxRetries, deliveries, replay int
	readyAt, order, leaseEnd                int
	token                                   string
}

// model is the engine as a few lines of plain code, driven beside the real one.
type model struct {
	f        Fixture
	now, ops int
	messages map[int64]*modelMessage
	// stale are tokens of leases that have ended.
	stale []store.LeaseRef
}

func runModel(t *testing.T, f Fixture) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		f.Reset(rt)
		f.Declare(rt, queue, modelSettings())
		m := &model{f: f, messages: map[int64]*modelMessage{}}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": m.enqueue, "claim": m.claim, "succeed": m.succeed, "fail": m.fail, "release": m.release,
			"extend": m.extend, "late": m.late, "replay": m.replay, "elapse": m.elapse, "maintain": m.maintain,
			"": m.compare,
		})
		f.Check(rt)
	})
}

func (m *model) step() int { m.ops++; return m.ops }

func (m *model) enqueue(t *rapid.T) {
	order := m.step()
	news := make([]store.NewMessage, rapid.IntRange(1, 4).Draw(t, "messages"))
	for i := range news {
		news[i] = store.NewMessage{
			Payload:    []byte{byte(i)},
			MaxRetries: rapid.IntRange(1, 5).Draw(t, "max retries"),
			Delay:      time.Duration(rapid.IntRange(0, 3).Draw(t, "delay")) * time.Minute,
		}
	}
	for i, accepted := range m.f.enqueue(t, news...) {
		m.messages[accepted.ID] = &modelMessage{
			id: accepted.ID, status: message.Pending, maxRetries: news[i].MaxRetries,
			readyAt: m.now + int(news[i].Delay/time.Minute), order: order,
		}
	}
}

func (m *model) claim(t *rapid.T) {
	m.step()
	want := m.ready()
	want = want[:min(len(want), rapid.IntRange(1, 5).Draw(t, "max"))]
	got := m.f.claim(t, max(len(want), 1))
	if len(got) != len(want) {
		t.Fatalf("claimed %d messages, want %d", len(got), len(want))
	}
	for i, claimed := range got {
		if claimed.ID != want[i].id {
			t.Fatalf("claim %d is message %d, want %d", i, claimed.ID, want[i].id)
		}
		want[i].status, want[i].token = message.Processing, claimed.Lease.Token
		want[i].deliveries++
		want[i].leaseEnd = m.now + modelVisibility
	}
}

// ready are the messages that can be claimed, in claim order.
func (m *model) ready() []*modelMessage {
	ready := m.filter(func(x *modelMessage) bool { return x.status == message.Pending && x.readyAt <= m.now })
	slices.SortFunc(ready, func(a, b *modelMessage) int {
		return cmp.Or(cmp.Compare(a.readyAt, b.readyAt), cmp.Compare(a.order, b.order), cmp.Compare(a.id, b.id))
	})
	return ready
}

func (m *model) filter(keep func(*modelMessage) bool) []*modelMessage {
	var kept []*modelMessage
	for _, x := range m.messages {
		if keep(x) {
			kept = append(kept, x)
		}
	}
	slices.SortFunc(kept, func(a, b *modelMessage) int { return cmp.Compare(a.id, b.id) })
	return kept
}

// held draws a message whose lease is current.
func (m *model) held(t *rapid.T) *modelMessage {
	held := m.filter(func(x *modelMessage) bool { return x.status == message.Processing })
	if len(held) == 0 {
		t.Skip("nothing is held")
	}
	return rapid.SampledFrom(held).Draw(t, "held")
}

func (x *modelMessage) ref() store.LeaseRef { return store.LeaseRef{ID: x.id, Token: x.token} }

func (m *model) end(x *modelMessage, status message.Status) {
	m.stale = append(m.stale, x.ref())
	x.status, x.token = status, ""
}

func (m *model) succeed(t *rapid.T) {
	m.step()
	x := m.held(t)
	wantErr(t, m.f.succeed(t, x.ref())[0].Err, nil)
	m.end(x, message.Succeeded)
}

func (m *model) fail(t *rapid.T) {
	x, order := m.held(t), m.step()
	permanent := rapid.IntRange(0, 5).Draw(t, "permanent") == 0
	m.f.failOne(t, message.Message{ID: x.id, Lease: &message.Lease{Token: x.token}}, message.Report{Permanent: permanent})
	m.failed(x, order, permanent)
}

// failed is the rule of a failure, written once more, by table instead of formula.
func (m *model) failed(x *modelMessage, order int, permanent bool) {
	x.retries++
	if permanent || x.retries >= x.maxRetries || x.deliveries >= modelMaxDeliveries {
		m.end(x, message.Dead)
		return
	}
	m.end(x, message.Pending)
	x.readyAt, x.order = m.now+[]int{1, 2, 4, 8, 8}[x.retries-1], order
}

func (m *model) release(t *rapid.T) {
	x, order := m.held(t), m.step()
	delay := rapid.IntRange(0, 2).Draw(t, "delay")
	_, err := m.f.Release(t.Context(), queue, x.ref(), time.Duration(delay)*time.Minute)
	wantErr(t, err, nil)
	m.end(x, message.Pending)
	x.deliveries--
	if delay > 0 {
		x.readyAt, x.order = m.now+delay, order
	}
}

func (m *model) extend(t *rapid.T) {
	m.step()
	x := m.held(t)
	by := rapid.IntRange(1, 15).Draw(t, "by")
	_, err := m.f.Extend(t.Context(), queue, x.ref(), time.Duration(by)*time.Minute)
	wantErr(t, err, nil)
	x.leaseEnd = m.now + by
}

// late uses a token of a lease that has ended, in every way there is.
func (m *model) late(t *rapid.T) {
	m.step()
	if len(m.stale) == 0 {
		t.Skip("no lease has ended")
	}
	ref := rapid.SampledFrom(m.stale).Draw(t, "stale")
	_, extendErr := m.f.Extend(t.Context(), queue, ref, time.Hour)
	_, releaseErr := m.f.Release(t.Context(), queue, ref, 0)
	for _, err := range []error{
		m.f.succeed(t, ref)[0].Err, m.f.fail(t, store.FailedLease{LeaseRef: ref})[0].Err, extendErr, releaseErr,
	} {
		if !errors.Is(err, store.ErrStaleLease) && !errors.Is(err, store.ErrNotProcessing) {
			t.Fatalf("a late call was answered %v", err)
		}
	}
}

func (m *model) replay(t *rapid.T) {
	order := m.step()
	all := m.filter(func(*modelMessage) bool { return true })
	if len(all) == 0 {
		t.Skip("there is no message")
	}
	x := rapid.SampledFrom(all).Draw(t, "message")
	_, err := m.f.Replay(t.Context(), queue, x.id)
	if x.status != message.Dead {
		wantErr(t, err, store.ErrNotDead)
		return
	}
	wantErr(t, err, nil)
	x.status, x.retries, x.deliveries, x.readyAt, x.order = message.Pending, 0, 0, m.now, order
	x.replay++
}

func (m *model) elapse(t *rapid.T) {
	minutes := rapid.IntRange(1, 12).Draw(t, "minutes")
	m.f.Elapse(t, time.Duration(minutes)*time.Minute)
	m.now += minutes
	expired := m.filter(func(x *modelMessage) bool { return x.status == message.Processing && x.leaseEnd <= m.now })
	order := m.step()
	if n := m.f.expire(t); n != len(expired) {
		t.Fatalf("%d leases expired, want %d", n, len(expired))
	}
	for _, x := range expired {
		m.failed(x, order, false)
	}
}

func (m *model) maintain(t *rapid.T) { m.f.Maintain(t) }

// compare holds every message against the model.
func (m *model) compare(t *rapid.T) {
	params := store.ListParams{Limit: 100}
	seen := 0
	for {
		page, err := m.f.List(t.Context(), queue, params)
		wantErr(t, err, nil)
		for _, got := range page.Messages {
			m.compareOne(t, got)
			seen++
		}
		if params.AfterID = page.NextAfterID; params.AfterID == 0 {
			break
		}
	}
	if seen != len(m.messages) {
		t.Fatalf("listed %d messages, want %d", seen, len(m.messages))
	}
}

func (m *model) compareOne(t *rapid.T, got message.Message) {
	want, known := m.messages[got.ID]
	if !known {
		t.Fatalf("message %d was never accepted", got.ID)
	}
	have := modelMessage{
		id: got.ID, status: got.Status, retries: got.RetryCount, maxRetries: got.MaxRetries,
		deliveries: got.DeliveryCount, replay: got.ReplayCount,
		readyAt: want.readyAt, order: want.order, leaseEnd: want.leaseEnd,
	}
	if got.Lease != nil {
		have.token = got.Lease.Token
	}
	if have != *want {
		t.Fatalf("message is %+v, want %+v", have, *want)
	}
}
