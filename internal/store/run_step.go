package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A letter that is no longer the death that was selected is skipped: somebody replayed it alone, and perhaps it has
// died again. The items that are not replayed are marked in the same statement, so that the counters always add up.
const stepRunSQL = `
WITH todo AS MATERIALIZED (
    SELECT position, message_id, died_at FROM {schema}.replay_item
    WHERE run_id = $4 AND state = 'selected' ORDER BY position LIMIT $5
), letter AS MATERIALIZED (
    SELECT m.id, m.dead_at, m.failure_category, m.fingerprint, m.replay_count
    FROM {schema}.message m JOIN todo ON todo.message_id = m.id
    WHERE m.status = 'dead' AND m.dead_at = todo.died_at
    ORDER BY m.id FOR UPDATE OF m
), ` + backToWorkSQL + `, item AS (
    UPDATE {schema}.replay_item i
    SET state = CASE WHEN letter.id IS NULL THEN 'skipped' ELSE 'replayed' END
    FROM todo LEFT JOIN letter ON letter.id = todo.message_id
    WHERE i.run_id = $4 AND i.position = todo.position
    RETURNING i.state
), moved AS (
    SELECT count(*) AS items, count(*) FILTER (WHERE state = 'replayed') AS replayed FROM item
)
UPDATE {schema}.replay_run r
SET replayed = r.replayed + moved.replayed, skipped = r.skipped + moved.items - moved.replayed,
    remaining = r.remaining - moved.items,
    state = CASE WHEN r.remaining = moved.items THEN 'Completed' ELSE r.state END,
    completed_at = CASE WHEN r.remaining = moved.items THEN now() END
FROM moved WHERE r.id = $4
RETURNING ` + runColumns

// StepRun replays up to batch letters of a run, in the order in which they died, in one transaction that also records
// it in the run: killed at any point, all of it happened or none. A finished run is returned as it is. Steps of one run
// take turns.
func (s *Store) StepRun(ctx context.Context, id int64, batch int) (Run, error) {
	var run Run
	err := s.inTx(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		run, err = one(collect(ctx, tx, scanRun, s.sql(lockRunSQL), id))
		if err != nil || run.State != RunRunning {
			return err
		}
		run, err = one(collect(ctx, tx, scanRun, s.sql(stepRunSQL),
			run.Key.String(), keptFirstAttempts, keptLastAttempts, id, batch))
		return err
	})
	if err != nil {
		return run, fmt.Errorf("step replay run: %w", err)
	}
	return run, nil
}
