package status_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"deadletter.dev/deadletter/controllers/status"
)

// The log joins what status says with the cause; a sentence must not end in the middle of it.
func TestRetryReadsAsOneSentence(t *testing.T) {
	t.Parallel()

	for message, want := range map[string]string{
		"The database does not answer.": "The database does not answer: connection refused",
		"No answer":                     "No answer: connection refused",
	} {
		if got := status.Retry("Why", message, errors.New("connection refused")).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A failure that comes with a lost race for the status is the failure, not the race: it is logged and spaced out.
func TestFailureIsNotTakenForALostRace(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	stale := f.broker.DeepCopy()
	f.broker.Labels = map[string]string{"edited": "meanwhile"}

	if err := f.client.Update(t.Context(), f.broker, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}

	boom := errors.New("boom")

	_, err := f.writer.Begin(stale).Finish(t.Context(), status.Outcome{}, boom)
	if !errors.Is(err, boom) || apierrors.IsConflict(err) {
		t.Errorf("error is %v", err)
	}
}
