package store_test

import (
	"testing"
	"time"

	"deadletter.dev/deadletter/internal/store"
)

// A database may be set up to answer before it has written: nothing accepted may be lost by that.
func TestCommitsAreDurableWhateverTheDefault(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	name := d.raw.Config().ConnConfig.Database
	for set, want := range map[string]string{"off": "on", "remote_apply": "remote_apply"} {
		d.exec(t, `ALTER DATABASE "`+name+`" SET synchronous_commit = `+set)
		fresh := openDatabase(t, d.url, store.Options{})
		if got, err := fresh.Setting(t.Context(), "synchronous_commit"); err != nil || got != want {
			t.Fatalf("set to %s: sessions have %s, want %s (%v)", set, got, want, err)
		}
		// Set in the session, it does not follow a later change of the default.
		if source, err := fresh.SettingSource(t.Context(), "synchronous_commit"); err != nil || source != "session" {
			t.Fatalf("set to %s: it comes from %q (%v)", set, source, err)
		}
	}
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	d := openDatabase(t, newDatabase(t).url, store.Options{StatementTimeout: 1500 * time.Millisecond})
	for _, name := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		if got, err := d.Setting(t.Context(), name); err != nil || got != "1500ms" {
			t.Fatalf("%s is %s (%v)", name, got, err)
		}
	}
}
