package store_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store/storetest"
)

// drainTime is how long it may take to work off what is left: leases must end first.
const drainTime = 20 * time.Second

// unfinishedSQL counts what is to be delivered yet.
var unfinishedSQL = `SELECT count(*)::int FROM (` + storetest.MessagesSQL(schema) + `) m
	JOIN deadletter.queue q ON q.id = m.queue_id WHERE q.name = ANY ($1) AND m.status IN ('pending', 'processing')`

// drain works off what is left. A message that nobody gets any more is as good as lost.
func (c *chaos) drain(t *testing.T) {
	t.Helper()
	r := rand.New(rand.NewPCG(c.seed, 0))
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	end := time.After(drainTime)
	for {
		left := c.count(t, unfinishedSQL, chaosQueues)
		if left == 0 {
			return
		}
		select {
		case <-end:
			c.ledger.wrong("lost: %d messages are never delivered", left)
			return
		case <-ticker.C:
		}
		for _, s := range c.stores {
			c.upkeep(s)(t.Context(), r)
		}
		for _, queue := range chaosQueues {
			w := worker{chaos: c, queue: queue, r: r}
			for claimed := w.claim(t.Context()); len(claimed) > 0; claimed = w.claim(t.Context()) {
				w.succeed(t.Context(), claimed)
			}
		}
	}
}

// storedMessage is a row of a queue that is not a short-lived one.
type storedMessage struct {
	Queue  string
	ID     int64
	Status message.Status
}

// account holds what is stored against what was told, and against what lists show.
func (c *chaos) account(t *testing.T, when string) {
	t.Helper()
	rows, err := c.raw.Query(t.Context(), `SELECT q.name, m.id, m.status FROM (`+storetest.MessagesSQL(schema)+`) m
		JOIN deadletter.queue q ON q.id = m.queue_id WHERE q.name = ANY ($1)`, chaosQueues)
	if err != nil {
		t.Fatalf("read messages: %v", err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedMessage])
	if err != nil {
		t.Fatalf("read messages: %v", err)
	}
	c.ledger.compare(when, stored)
	c.walk(t.Context(), rand.New(rand.NewPCG(c.seed, 0)), keptQueue)
}

// checkNoOrphans looks for what deleted queues have left. In the log it lasts as long as its segment, and none is left.
func (c *chaos) checkNoOrphans(t *testing.T) {
	t.Helper()
	for table, rows := range map[string]string{
		"message": "deadletter.message", "depth": "deadletter.depth",
		"log": "(" + storetest.MessagesSQL(schema) + ")",
	} {
		n := c.count(t, "SELECT count(*)::int FROM "+rows+` m
			WHERE NOT EXISTS (SELECT FROM deadletter.queue q WHERE q.id = m.queue_id)`)
		if n > 0 {
			t.Errorf("%s: %d rows of no queue", table, n)
		}
	}
}

// compare holds what is stored against what was told.
func (l *ledger) compare(when string, stored []storedMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(map[int64]storedMessage, len(stored))
	strangers := 0
	for _, m := range stored {
		if _, again := found[m.ID]; again {
			l.contradict("%s: message %d is there twice", when, m.ID)
		}
		found[m.ID] = m
		if a := l.accounts[m.ID]; a == nil || !a.accepted {
			strangers++
		}
	}
	if strangers > l.uncertain {
		l.contradict("%s: %d messages are there that nobody was told of, %d at most may be", when, strangers, l.uncertain)
	}
	var lost []int64
	for id, a := range l.accounts {
		m, there := found[id]
		if there {
			l.compareOne(when, a, m)
		} else if done := a.succeeded || a.perhaps; a.accepted && (!done || a.queue == keptQueue) {
			lost = append(lost, id)
		}
	}
	if len(lost) > 0 {
		l.contradict("%s: lost: %d accepted messages are not there, of which one is %d", when, len(lost), lost[0])
	}
}

func (l *ledger) compareOne(when string, a *account, m storedMessage) {
	if m.Queue != a.queue {
		l.contradict("%s: message %d of %s is in %s", when, m.ID, a.queue, m.Queue)
	}
	if done := m.Status == message.Succeeded; done && !a.succeeded && !a.perhaps || a.succeeded && !done {
		l.contradict("%s: message %d is %s; that it has succeeded was told: %t", when, m.ID, m.Status, a.succeeded)
	}
}

// walked holds the pages of a queue against what was accepted before.
func (l *ledger) walked(queue string, before []int64, met []message.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(map[int64]bool, len(met))
	last := int64(0)
	for _, m := range met {
		if m.ID <= last {
			l.contradict("a list of %s shows message %d after %d", queue, m.ID, last)
		}
		last, seen[m.ID] = m.ID, true
		if a := l.accounts[m.ID]; a != nil {
			l.of(queue, m)
		}
	}
	missing := slices.DeleteFunc(before, func(id int64) bool { return seen[id] })
	if len(missing) > 0 {
		l.contradict("a list of %s leaves out %d messages, of which one is %d", queue, len(missing), missing[0])
	}
}
