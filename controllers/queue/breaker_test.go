package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/api/v1alpha1"
)

// TestStatusShowsTheBreaker: opened by failures, and gone with the spec's.
func TestStatusShowsTheBreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	object := f.create("orders", func(q *v1alpha1.Queue) {
		q.Spec.CircuitBreaker = v1alpha1.QueueCircuitBreaker{MinSample: 2, OpenSeconds: 3600}
	})
	f.awaitReady(object)
	shows := func(want v1alpha1.CircuitBreakerState) func() error {
		return func() error {
			if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if got := object.Status.CircuitBreaker; got.State != want || (got.ChangeTime == nil) != (want == "") {
				return fmt.Errorf("the breaker is shown as %+v, want %q", got, want)
			}
			return nil
		}
	}
	g := gomega.NewWithT(t)
	g.Eventually(shows(v1alpha1.CircuitBreakerClosed), 11*time.Second, every).Should(gomega.Succeed())
	f.judge(t)
	f.Enqueue(t, "orders", 3)
	f.Kill(t, "orders", 2, "EXTERNAL")
	f.judge(t)
	g.Eventually(shows(v1alpha1.CircuitBreakerOpen), 11*time.Second, every).Should(gomega.Succeed())
	f.edit(object, func(q *v1alpha1.Queue) { q.Spec.CircuitBreaker = v1alpha1.QueueCircuitBreaker{} })
	g.Eventually(shows(""), 11*time.Second, every).Should(gomega.Succeed())
}

// judge does what the queue API does every second.
func (f *fixture) judge(t *testing.T) {
	t.Helper()
	if _, err := f.Store.JudgeBreakers(t.Context()); err != nil {
		t.Fatal(err)
	}
}
