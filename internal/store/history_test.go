package store_test

import (
	"testing"

	"deadletter.dev/deadletter/internal/store"
)

// rows counts everything that is stored.
func (d database) rows(t *testing.T) int {
	t.Helper()
	if err := d.FoldDepth(t.Context()); err != nil {
		t.Fatalf("fold depth: %v", err)
	}
	return d.count(t, `SELECT sum((xpath('/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I.%I',
		schemaname, tablename), false, true, '')))[1]::text::int)::int FROM pg_tables WHERE schemaname = 'deadletter'`)
}

// A message that is handed back for ever does not fill the database: what is kept of its history is bounded.
func TestReleasesDoNotPileUp(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.mustEnqueue(t, 1)
	release := func(times int) int {
		for range times {
			held, err := d.Claim(t.Context(), orders, store.ClaimParams{Max: 1})
			if err != nil || len(held) != 1 {
				t.Fatalf("claimed %d: %v", len(held), err)
			}
			if _, err := d.Release(t.Context(), orders, store.LeaseRef{ID: held[0].ID}, 0); err != nil {
				t.Fatalf("release: %v", err)
			}
		}
		return d.rows(t)
	}
	few, full, more := release(5), release(55), release(20)
	if few >= full || full != more {
		t.Fatalf("%d rows after 5 releases, %d after 60, %d after 80", few, full, more)
	}
}
