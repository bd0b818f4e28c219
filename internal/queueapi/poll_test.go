package queueapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/queueapi"
	"deadletter.dev/deadletter/internal/store"
)

// polled is the outcome of a claim in the background.
type polled struct {
	claimed claimed
	err     error
	status  int
	after   time.Duration
}

// poll claims in the background.
func (s *server) poll(ctx context.Context, queue, body string) <-chan polled {
	s.t.Helper()
	done := make(chan polled, 1)
	go func() {
		start := time.Now()
		answer, err := s.try(ctx, http.MethodPost, queuePath(queue)+"/claim", body)
		outcome := polled{err: err, after: time.Since(start)}
		if err == nil {
			outcome.status = answer.status
			if answer.status == http.StatusOK {
				outcome.claimed = decode[claimed](answer)
			}
		}
		done <- outcome
	}()
	return done
}

// awaitPolls returns once n claims wait.
func (s *server) awaitPolls(n int) {
	s.t.Helper()
	want := fmt.Sprintf("\ndeadletter_long_polls %d\n", n)
	s.eventually("long polls to be "+want, func() bool {
		return contains(string(s.do(http.MethodGet, "/metrics", nil).body), want)
	})
}

// eventually waits for a condition that another goroutine brings about.
func (s *server) eventually(what string, condition func() bool) {
	s.t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline:
			s.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// onlyWakeUps puts the backstop off for days, so that only a wake-up can end a wait.
func onlyWakeUps(options *queueapi.Options, _ *store.Options) {
	options.Jitter = func() float64 { return 1e6 }
}

func TestLongPollIsWokenByWhatMakesAMessageReady(t *testing.T) {
	t.Parallel()
	s := newServer(t, onlyWakeUps)
	const queue = "orders"
	held := func() msg { s.enqueue(queue, payloadOf("x")); return s.claim(queue) }
	dead := func() msg { return s.dead(queue, payloadOf("x"), `{"retryable":false}`) }
	causes := map[string]func() func(){
		"enqueue": func() func() { return func() { s.enqueue(queue, payloadOf("x")) } },
		"release": func() func() {
			m := held()
			return func() { s.do(http.MethodPost, itemPath(queue, m.ID)+"/release", nil).want(200) }
		},
		"retry": func() func() {
			m := held()
			return func() { s.do(http.MethodPost, itemPath(queue, m.ID)+"/fail", `{"retry_after_seconds":0.05}`).want(200) }
		},
		"replay": func() func() {
			m := dead()
			return func() { s.do(http.MethodPost, itemPath(queue, m.ID)+"/replay", nil).want(200) }
		},
	}
	for cause, prepare := range causes {
		act := prepare()
		waiting := s.poll(t.Context(), queue, `{"wait_seconds":20}`)
		s.awaitPolls(1)
		act()
		got := <-waiting
		if got.err != nil || !got.claimed.Claimed {
			t.Fatalf("%s: %+v", cause, got)
		}
		s.do(http.MethodPost, itemPath(queue, got.claimed.Message.ID)+"/succeed", nil).want(200)
	}
}

func TestLongPollFindsWhatAnotherProcessMadeReady(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	waiting := s.poll(t.Context(), "orders", `{"wait_seconds":20}`)
	s.awaitPolls(1)
	if _, err := s.store.Enqueue(t.Context(), "orders", []store.NewMessage{{Payload: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if got := <-waiting; got.err != nil || !got.claimed.Claimed || got.after > 15*time.Second {
		t.Errorf("the long poll answers %+v", got)
	}
}

func TestLongPollEndsWithNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	got := <-s.poll(t.Context(), "orders", `{"wait_seconds":1,"max":3}`)
	if got.err != nil || got.claimed.Claimed || got.claimed.Messages == nil ||
		got.after < time.Second || got.after > 10*time.Second {
		t.Errorf("a long poll of one second answers %+v", got)
	}
}

func TestLongPollsShareABurst(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const pollers, each = 8, 3
	var waiting []<-chan polled
	for range pollers {
		waiting = append(waiting, s.poll(t.Context(), "orders", fmt.Sprintf(`{"wait_seconds":20,"max":%d}`, each)))
	}
	s.awaitPolls(pollers)
	var messages []any
	for range pollers * each {
		messages = append(messages, payloadOf("x"))
	}
	s.do(http.MethodPost, "/queues/orders/messages", map[string]any{"messages": messages}).want(201)
	seen := map[int64]bool{}
	for _, w := range waiting {
		got := <-w
		if got.err != nil || !got.claimed.Claimed {
			t.Fatalf("a poller goes without: %+v", got)
		}
		for _, m := range got.claimed.Messages {
			if seen[m.ID] {
				t.Errorf("message %d is held twice", m.ID)
			}
			seen[m.ID] = true
		}
	}
}

func TestLongPollEndsWhenTheServerDrains(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	waiting := s.poll(t.Context(), "orders", `{"wait_seconds":20}`)
	s.awaitPolls(1)
	s.api.Drain()
	if got := <-waiting; got.err != nil || got.status != 200 || got.claimed.Claimed || got.after > 10*time.Second {
		t.Errorf("a drained long poll answers %+v", got)
	}
	s.enqueue("orders", payloadOf("x"))
	if got := <-s.poll(t.Context(), "orders", `{"wait_seconds":20}`); !got.claimed.Claimed {
		t.Error("a message that is ready is not handed out while draining")
	}
	s.do(http.MethodGet, "/readyz", nil).problem(503, "unavailable")
}

func TestNoClaimForAClientThatIsGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, leave := context.WithCancel(t.Context())
	waiting := s.poll(ctx, "orders", `{"wait_seconds":20}`)
	s.awaitPolls(1)
	leave()
	<-waiting
	s.awaitPolls(0)
	m := s.enqueue("orders", payloadOf("x"))
	if got := s.claim("orders"); got.ID != m.ID || got.DeliveryCount != 1 {
		t.Errorf("after the client left: %+v", got)
	}
}

// TestClaimIsGivenBackWhenTheClientLeavesMeanwhile: the client disconnects after the claim was committed and before it
// is answered.
func TestClaimIsGivenBackWhenTheClientLeavesMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	var s *server
	var once sync.Once
	s = newServer(t, withHooks(&hookedBackend{afterClaim: func(got []message.Message) {
		once.Do(func() {
			if len(got) != 2 {
				t.Errorf("claimed %d messages, want 2", len(got))
			}
			seen, _ := s.claiming.Load().(context.Context)
			leave()
			<-seen.Done() // The server has noticed.
		})
	}}))
	s.enqueue("orders", payloadOf("x"))
	s.enqueue("orders", payloadOf("y"))
	if got := <-s.poll(ctx, "orders", `{"max":2,"visibility_timeout_seconds":43200}`); got.err == nil {
		t.Fatalf("the client got an answer: %+v", got)
	}
	s.eventually("both messages to be pending", func() bool { return s.list("status=pending").Count == 2 })
	again := decode[claimed](s.do(http.MethodPost, "/queues/orders/claim", `{"max":2}`).want(200))
	for _, m := range again.Messages {
		if m.DeliveryCount != 1 || m.RetryCount != 0 {
			t.Errorf("being given back cost message %d: %+v", m.ID, m)
		}
	}
}

func TestManyWorkersHoldNothingTwice(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const workers, total, batch = 16, 2000, 500
	for range total / batch {
		messages := slices.Repeat([]any{payloadOf("x")}, batch)
		s.do(http.MethodPost, "/queues/orders/messages", map[string]any{"messages": messages}).want(201)
	}
	var done atomic.Int64
	var held sync.Map
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for done.Load() < total {
				answer := s.do(http.MethodPost, "/queues/orders/claim", `{"max":7,"wait_seconds":1}`)
				for _, m := range decode[claimed](answer).Messages {
					if _, twice := held.LoadOrStore(m.ID, true); twice {
						t.Errorf("message %d is held twice", m.ID)
					}
					s.do(http.MethodPost, itemPath("orders", m.ID)+"/succeed", map[string]any{"lease_token": m.LeaseToken})
					done.Add(1)
				}
			}
		})
	}
	group.Wait()
}

func TestClaimOfLargePayloadsIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const total = 9
	large := strings.Repeat("x", 1<<20)
	for range total {
		s.enqueue("orders", payloadOf(large))
	}
	seen := 0
	for claims := 1; seen < total; claims++ {
		got := decode[claimed](s.do(http.MethodPost, "/queues/orders/claim", `{"max":1000}`).want(200))
		if count := len(got.Messages); count < 1 || count > 5 || claims > total {
			t.Fatalf("claim %d answers %d messages of 1 MiB", claims, count)
		}
		seen += len(got.Messages)
	}
}
