package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
	"deadletter.dev/deadletter/internal/store"
)

// produce enqueues a few messages, each with a payload of its own, some of them for later.
func (c *chaos) produce(ctx context.Context, r *rand.Rand) {
	if c.ledger.unfinished() > chaosBacklog {
		return
	}
	queue := pick(r, chaosQueues)
	messages := make([]store.NewMessage, 1+r.IntN(5))
	for i := range messages {
		messages[i] = store.NewMessage{Payload: strconv.AppendUint(nil, r.Uint64(), 36), MaxRetries: 1 + r.IntN(3)}
		if r.IntN(30) == 0 {
			messages[i].Delay = time.Duration(1+r.IntN(200)) * time.Millisecond
		}
	}
	stored, err := c.any(r).Enqueue(ctx, queue, messages)
	if c.ledger.failed("enqueue", err) {
		c.ledger.mayHaveAccepted(len(messages))
		return
	}
	c.ledger.accepted(queue, messages, stored)
}

// turn goes on to new segments all the time, so that passes overlap and find things other than they were.
func (c *chaos) turn(s *store.Store) step {
	return func(ctx context.Context, r *rand.Rand) {
		result, err := s.RotateLog(ctx, store.Rotation{
			SegmentIDs: 1 + r.Int64N(1+r.Int64N(400)), SegmentAge: time.Hour, Survivors: r.Int64N(3001),
		})
		c.ledger.turned(result)
		c.ledger.failed("rotate", err)
	}
}

// upkeep ends leases and folds counters.
func (c *chaos) upkeep(s *store.Store) step {
	return func(ctx context.Context, _ *rand.Rand) {
		_, err := s.ExpireLeases(ctx, 500)
		c.ledger.failed("expire leases", err)
		c.ledger.failed("fold depth", s.FoldDepth(ctx))
	}
}

// replayDead puts dead letters of a queue back to work.
func (c *chaos) replayDead(ctx context.Context, r *rand.Rand) {
	queue := pick(r, chaosQueues)
	page, err := c.any(r).List(ctx, queue, store.ListParams{Status: message.Dead, Limit: 50})
	if c.ledger.failed("list dead letters", err) {
		return
	}
	for _, m := range page.Messages {
		_, err := c.any(r).Replay(ctx, queue, m.ID)
		c.ledger.failed("replay", err)
	}
}

// walkOne goes through the pages of a queue while its messages come and move.
func (c *chaos) walkOne(ctx context.Context, r *rand.Rand) {
	c.walk(ctx, r, keptQueue)
}

// walk goes through a queue's pages. What was there before must be met, and everything once.
func (c *chaos) walk(ctx context.Context, r *rand.Rand, queue string) {
	before := c.ledger.acceptedIn(queue)
	var met []message.Message
	for params := (store.ListParams{Limit: 100}); ; {
		page, err := c.any(r).List(ctx, queue, params)
		if c.ledger.failed("list", err) {
			return
		}
		met = append(met, page.Messages...)
		if params.AfterID = page.NextAfterID; params.AfterID == 0 {
			break
		}
	}
	c.ledger.walked(queue, before, met)
}

// comeAndGo uses a queue that comes into being by that, and deletes it while others may do the same.
func (c *chaos) comeAndGo(ctx context.Context, r *rand.Rand) {
	queue := "short-lived-" + strconv.Itoa(r.IntN(3))
	messages := make([]store.NewMessage, 3)
	for i := range messages {
		messages[i].Payload = []byte("short-lived")
	}
	if _, err := c.any(r).Enqueue(ctx, queue, messages); c.ledger.failed("enqueue to a queue that goes", err) {
		return
	}
	held, err := c.any(r).Claim(ctx, queue, store.ClaimParams{Max: 2})
	if !c.ledger.failed("claim from a queue that goes", err) && len(held) > 0 {
		// The queue may be gone by now, and its messages with it.
		if _, err := c.any(r).Release(ctx, queue, refs(held)[0], 0); !isRefusal(err) {
			c.ledger.failed("release in a queue that goes", err)
		}
	}
	c.ledger.failed("delete queue", c.any(r).DeleteQueue(ctx, queue, store.Owner{}, false))
}

// endSession ends one of the sessions that are at work.
func (c *chaos) endSession(ctx context.Context, r *rand.Rand) {
	rows, err := c.raw.Query(ctx, `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1 AND state <> 'idle' ORDER BY pid`, chaosSession)
	var sessions []int32
	if err == nil {
		sessions, err = pgx.CollectRows(rows, pgx.RowTo[int32])
	}
	if err == nil && len(sessions) > 0 {
		_, err = c.raw.Exec(ctx, "SELECT pg_terminate_backend($1)", sessions[r.IntN(len(sessions))])
	}
	c.ledger.failed("end a session", err)
}

// isRefusal says that a lease was not taken for a valid one.
func isRefusal(err error) bool {
	return errors.Is(err, store.ErrNotProcessing) || errors.Is(err, store.ErrStaleLease) ||
		errors.Is(err, store.ErrNotFound)
}
