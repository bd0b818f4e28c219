package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// ErrNoTargetQueue is returned by a step of a run whose messages go to a queue that is not there.
var ErrNoTargetQueue = errors.New("the queue that messages are to go to is not there")

// Edit returns the payload that a dead letter goes back to work with: its own, unchanged, or another. A letter for
// which it returns an error stays dead; the error is recorded with the run, and so must not quote the payload.
type Edit func(message.Message) ([]byte, error)

const (
	// editableSQL is how many of the next letters can be edited at once: those of which less than $3 bytes of payload come
	// before.
	editableSQL = `
SELECT count(*) FROM (
    SELECT coalesce(sum(octet_length(m.payload)) OVER (ORDER BY i.position), 0) - coalesce(octet_length(m.payload), 0)
        AS before
    FROM (
        SELECT position, message_id, died_at FROM {schema}.replay_item
        WHERE run_id = $1 AND state = 'selected' ORDER BY position LIMIT $2
    ) i
    LEFT JOIN {schema}.message m ON m.id = i.message_id AND m.status = 'dead' AND m.dead_at = i.died_at
) sized WHERE before < $3`

	// lockLettersSQL reads the letters that are next, for an edit of their payloads.
	lockLettersSQL = `
WITH todo AS MATERIALIZED (
    SELECT message_id, died_at FROM {schema}.replay_item
    WHERE run_id = $1 AND state = 'selected' ORDER BY position LIMIT $2
)
SELECT ` + messageColumns + `, q.name FROM {schema}.message m
JOIN todo ON todo.message_id = m.id JOIN {schema}.queue q ON q.id = m.queue_id
WHERE m.status = 'dead' AND m.dead_at = todo.died_at
ORDER BY m.id FOR UPDATE OF m`

	// A letter that is no longer the death that was selected is skipped: somebody replayed it alone, and perhaps it has
	// died again. The items that are not replayed are marked in the same statement, so that the counters always add up. $6
	// is the queue to go to or null, $7 and $8 are edited letters with their payloads, $9 and $10 those that could not be
	// edited, and why; $11 are all that were looked at for that, or null.
	stepRunSQL = `
WITH todo AS MATERIALIZED (
    SELECT position, message_id, died_at FROM {schema}.replay_item
    WHERE run_id = $4 AND state = 'selected' ORDER BY position LIMIT $5
), bad AS MATERIALIZED (
    SELECT * FROM unnest($9::bigint[], $10::text[]) AS b (id, error)
), letter AS MATERIALIZED (
    SELECT ` + letterSQL + `, coalesce($6::bigint, m.queue_id) AS target_id, $4::bigint AS run_id, todo.position,
        (SELECT e.payload FROM unnest($7::bigint[], $8::bytea[]) AS e (id, payload) WHERE e.id = m.id) AS payload
    FROM {schema}.message m JOIN todo ON todo.message_id = m.id
    WHERE m.status = 'dead' AND m.dead_at = todo.died_at AND m.id <> ALL ($9)
        AND ($11::bigint[] IS NULL OR m.id = ANY ($11))
    ORDER BY m.id FOR UPDATE OF m
), ` + backToWorkSQL + `, item AS (
    UPDATE {schema}.replay_item i
    SET state = CASE WHEN bad.id IS NOT NULL THEN 'failed' WHEN letter.id IS NULL THEN 'skipped' ELSE 'replayed' END,
        error = bad.error
    FROM todo LEFT JOIN letter ON letter.id = todo.message_id LEFT JOIN bad ON bad.id = todo.message_id
    WHERE i.run_id = $4 AND i.position = todo.position
    RETURNING i.state
), moved AS (
    SELECT count(*) AS items, count(*) FILTER (WHERE state = 'replayed') AS replayed,
        count(*) FILTER (WHERE state = 'failed') AS failed FROM item
)
UPDATE {schema}.replay_run r
SET replayed = r.replayed + moved.replayed, failed = r.failed + moved.failed,
    skipped = r.skipped + moved.items - moved.replayed - moved.failed,
    remaining = r.remaining - moved.items,
    canary_sent_at = CASE WHEN r.canary_sent_at IS NULL AND r.canary_messages > 0
        AND r.replayed + moved.replayed >= r.canary_messages THEN now() ELSE r.canary_sent_at END,
    state = CASE WHEN r.remaining = moved.items THEN 'Completed' ELSE r.state END,
    completed_at = CASE WHEN r.remaining = moved.items THEN now() END
FROM moved WHERE r.id = $4
RETURNING ` + runColumns
)

// StepRun replays up to batch letters of a run, in the order in which they died, in one transaction that also records
// it in the run: killed at any point, all of it happened or none. A canary that has not passed goes no further than its
// messages. With edit, letters go back to work as it returns them. A finished run is returned as it is. Steps of one
// run take turns.
func (s *Store) StepRun(ctx context.Context, id int64, batch int, edit Edit) (Run, error) {
	var run Run
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		run, err = one(collect(ctx, tx, scanRun, s.sql(lockRunSQL), id))
		if err != nil || run.State != RunRunning {
			return err
		}
		step := runStep{Store: s, run: run, batch: run.allowance(batch)}
		if step.batch == 0 {
			return nil
		}
		run, err = step.do(ctx, tx, edit)
		return err
	})
	if err != nil {
		return run, fmt.Errorf("step replay run: %w", err)
	}
	return run, nil
}

// runStep is one batch of a run.
type runStep struct {
	*Store

	run Run
	// batch is how many letters are next.
	batch int
	// target is where the messages go; nil is their own queue.
	target *int64
	// seen are the letters that were looked at for an edit, edited those with other payloads, failed those that could not
	// be edited.
	seen, edited, failed []int64
	payloads             [][]byte
	errors               []string
}

func (r *runStep) do(ctx context.Context, tx pgx.Tx, edit Edit) (Run, error) {
	if err := r.findTarget(ctx, tx); err != nil {
		return r.run, err
	}
	if edit != nil {
		if err := r.edit(ctx, tx, edit); err != nil {
			return r.run, err
		}
	}
	return one(collect(ctx, tx, scanRun, r.sql(stepRunSQL), r.run.Key.String(), keptFirstAttempts, keptLastAttempts,
		r.run.ID, r.batch, r.target, notNull(r.edited), r.payloads, notNull(r.failed), r.errors, r.seen))
}

// findTarget looks the queue up that messages go to, and has its end wait for this transaction.
func (r *runStep) findTarget(ctx context.Context, tx pgx.Tx) error {
	name := r.run.Plan.Target
	if name == "" {
		return nil
	}
	if err := r.shareLife(ctx, tx, name); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, r.sql("SELECT id FROM {schema}.queue WHERE name = $1"), name).Scan(&r.target)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNoTargetQueue
	}
	return err //nolint:wrapcheck // wrapped by the caller
}

// editBytes is how much of payloads one step reads to edit them.
const editBytes = 4 << 20

// edit locks the letters of the batch, fewer when they are large, and works out their payloads.
func (r *runStep) edit(ctx context.Context, tx pgx.Tx, edit Edit) error {
	type letter struct {
		messageRow

		queue string
	}
	if err := tx.QueryRow(ctx, r.sql(editableSQL), r.run.ID, r.batch, editBytes).Scan(&r.batch); err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	letters, err := collect(ctx, tx, func(row pgx.CollectableRow) (l letter, err error) {
		l.messageRow, err = scanMessage(row, "", &l.queue)
		l.Queue = l.queue
		return l, err
	}, r.sql(lockLettersSQL), r.run.ID, r.batch)
	if err != nil {
		return err
	}
	r.seen = []int64{}
	for i := range letters {
		m := &letters[i].Message
		r.seen = append(r.seen, m.ID)
		after, err := edit(*m)
		switch {
		case err != nil:
			r.failed, r.errors = append(r.failed, m.ID), append(r.errors, message.Clean(err.Error(), maxItemError))
		case !bytes.Equal(after, m.Payload):
			r.edited, r.payloads = append(r.edited, m.ID), append(r.payloads, after)
		}
	}
	return nil
}

// maxItemError bounds what is recorded of a letter that could not be edited, in bytes.
const maxItemError = 512

// notNull is an empty array for none, which compares with every id.
func notNull(ids []int64) []int64 {
	if ids == nil {
		return []int64{}
	}
	return ids
}
