package lock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestAcquireWaitsForTheHolder(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "lock")

	release, err := Acquire(t.Context(), path, func() { t.Error("waited for a free lock") })
	if err != nil {
		t.Fatal(err)
	}

	waiting, acquired := make(chan struct{}), make(chan error)

	go func() {
		second, err := Acquire(t.Context(), path, func() { close(waiting) })
		if err == nil {
			second()
		}

		acquired <- err
	}()

	<-waiting

	select {
	case err := <-acquired:
		t.Fatalf("a held lock was acquired: %v", err)
	default:
	}

	release()

	if err := <-acquired; err != nil {
		t.Fatal(err)
	}
}

func TestAcquireGivesUpWithItsContext(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "lock")

	release, err := Acquire(t.Context(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer release()

	ctx, cancel := context.WithCancel(t.Context())

	if _, err := Acquire(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancellation", err)
	}
}
