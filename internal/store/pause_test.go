package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// paused is the application whose transactions wait before they commit.
const paused = "paused"

// pauseSQL makes every transaction of that application that has written to the schema wait for a lock at its end, with
// nothing of it visible yet and all its locks kept.
const pauseSQL = `
CREATE FUNCTION deadletter.pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = '` + paused + `' THEN
        PERFORM pg_advisory_xact_lock_shared(0, 0);
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE written regclass;
BEGIN
    FOR written IN SELECT oid FROM pg_class
        WHERE relnamespace = 'deadletter'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    LOOP
        EXECUTE format('CREATE CONSTRAINT TRIGGER pause AFTER INSERT OR UPDATE OR DELETE ON %s
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION deadletter.pause()', written);
    END LOOP;
END $$`

// pausing returns a store on the same database whose calls stop before they commit, until resume.
func (d database) pausing(t *testing.T) (pausing database, resume func()) {
	t.Helper()
	d.exec(t, pauseSQL)
	gate, err := d.raw.Acquire(t.Context())
	if err != nil {
		t.Fatalf("acquire a connection: %v", err)
	}
	if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_lock(0, 0)"); err != nil {
		t.Fatalf("close the gate: %v", err)
	}
	t.Cleanup(gate.Release)
	resume = func() {
		if _, err := gate.Exec(t.Context(), "SELECT pg_advisory_unlock(0, 0)"); err != nil {
			t.Errorf("open the gate: %v", err)
		}
	}
	return openDatabase(t, d.url, store.Options{ApplicationName: paused}), resume
}

// call runs f in a goroutine, and returns what tells of its end.
func call(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// awaitStop waits until that many sessions of the database wait for locks, or one of the calls has ended.
func (d database) awaitStop(t *testing.T, sessions int, calls ...<-chan error) {
	t.Helper()
	const waiting = `SELECT count(*)::int FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for d.count(t, waiting) < sessions {
		for _, done := range calls {
			if len(done) > 0 {
				return
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("fewer than %d sessions wait", sessions)
		case <-time.After(time.Millisecond):
		}
	}
}

// wantDone waits for calls, none of which may fail.
func wantDone(t *testing.T, calls ...<-chan error) {
	t.Helper()
	for _, done := range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
