package workers

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestWorkersOfTheManual: in each language, messages succeed, fail and die as they should, although answers get lost;
// long work keeps its lease; the worker lives through a restart of the server, and ends well when it is told to.
func TestWorkersOfTheManual(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.block, func(t *testing.T) {
			t.Parallel()
			send, work := l.programs(t)
			a := startAPI(t)

			worker := a.command(l, a.losing("/succeed", "/fail", "/extend"), work)
			out := new(output)
			worker.Stdout, worker.Stderr = out, out
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if t.Failed() {
					_ = syscall.Kill(-worker.Process.Pid, syscall.SIGKILL)
					t.Logf("the worker wrote:\n%s", out)
				}
			})

			a.send(l, send, `{"order": 7, "note": "Grüße \"<&>\""}`)
			a.send(l, send, "nonsense")
			a.send(l, send, `{"order": 8, "count": 101}`)
			a.send(l, send, `{"order": 9, "takes": 5}`)
			var bytes message
			a.call(http.MethodPost, "/queues/orders/messages", `{"payload": "/w==", "payload_encoding": "base64"}`, &bytes)

			a.await(1, "done", func(m message) bool { return m.Status == "succeeded" })
			for _, id := range []int64{2, bytes.ID} {
				died := a.await(id, "dead", func(m message) bool { return m.Status == "dead" })
				if f := died.LastFailure; f.Reason != "this is no order" || f.Category != "VALIDATION" || died.RetryCount != 1 {
					t.Errorf("message %d died of %+v", id, f)
				}
			}
			failed := a.await(3, "tried again", func(m message) bool { return m.RetryCount > 0 })
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			if f := failed.LastFailure; f.Reason != "not enough of order 8 in stock" || f.ErrorClass == "" ||
				f.Consumer.Instance != host || f.Consumer.Version != "1.0" {
				t.Errorf("message 3 failed with %+v", f)
			}
			if long := a.await(4, "done", func(m message) bool { return m.Status == "succeeded" }); long.DeliveryCount != 1 ||
				long.RetryCount != 0 {
				t.Errorf("the long one was delivered %d times and failed %d times", long.DeliveryCount, long.RetryCount)
			}

			if err := a.Kill9(); err != nil {
				t.Fatal(err)
			}
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.send(l, send, `{"order": 10}`)
			a.await(6, "done", func(m message) bool { return m.Status == "succeeded" })
			if shipped := out.String(); !strings.Contains(shipped, "shipped order 7\n") ||
				!strings.Contains(shipped, "shipped order 10\n") {
				t.Errorf("the worker wrote %q", shipped)
			}

			if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err != nil {
				t.Errorf("the worker ended with %v", err)
			}
		})
	}
}

// TestWorkersFinishWhatTheyHave: told to stop in the middle of a message, they report its end first.
func TestWorkersFinishWhatTheyHave(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.block, func(t *testing.T) {
			t.Parallel()
			send, work := l.programs(t)
			a := startAPI(t)
			a.send(l, send, `{"order": 1, "takes": 2}`)
			worker := a.command(l, a.URL(), work)
			out := new(output)
			worker.Stdout, worker.Stderr = out, out
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			a.await(1, "begun", func(m message) bool { return m.Status == "processing" })
			if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := worker.Wait(); err != nil {
				t.Errorf("the worker ended with %v:\n%s", err, out)
			}
			if m := a.get(1); m.Status != "succeeded" || m.DeliveryCount != 1 {
				t.Errorf("the message is %+v; the worker wrote:\n%s", m, out)
			}
		})
	}
}

// TestSendersStoreOnce: neither an answer that gets lost nor an API that is not there yet makes for other than one
// message.
func TestSendersStoreOnce(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.block, func(t *testing.T) {
			t.Parallel()
			send, _ := l.programs(t)
			a := startAPI(t)
			if out, err := a.command(l, a.losing("/messages"), send, "lost").CombinedOutput(); err != nil {
				t.Fatalf("send: %v\n%s", err, out)
			}
			if err := a.Kill9(); err != nil {
				t.Fatal(err)
			}
			sender := a.command(l, a.URL(), send, "early")
			out := new(output)
			sender.Stdout, sender.Stderr = out, out
			if err := sender.Start(); err != nil {
				t.Fatal(err)
			}
			if err := a.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := sender.Wait(); err != nil {
				t.Fatalf("send: %v\n%s", err, out)
			}
			var page struct {
				Messages []struct{ Payload string } `json:"messages"`
			}
			a.call(http.MethodGet, "/queues/orders/messages", "", &page)
			if len(page.Messages) != 2 || page.Messages[0].Payload != "lost" || page.Messages[1].Payload != "early" {
				t.Errorf("stored are %+v", page.Messages)
			}
		})
	}
}
