package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

// DeadLetters returns a page of a queue's dead letters, newest death first, from after the cursor on. Payloads are cut
// to PreviewBytes.
func (s *Store) DeadLetters(
	ctx context.Context, queue string, filter DeadLetterFilter, after DeadLetterCursor, limit int,
) (DeadLetterPage, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	args := arguments{queue}
	where := filter.where(&args, queueIDSQL)
	if !after.DiedAt.IsZero() {
		where += " AND (m.dead_at, m.id) < (" + args.add(after.DiedAt) + ", " + args.add(after.ID) + ")"
	}
	statement := "SELECT " + previewColumns + " FROM {schema}.message m WHERE " + where +
		" ORDER BY m.dead_at DESC, m.id DESC LIMIT " + args.add(limit+1)
	rows, err := collect(ctx, s.pool, messageOf(queue), s.sql(statement), args...)
	if err != nil {
		return DeadLetterPage{}, fmt.Errorf("list dead letters: %w", err)
	}
	var page DeadLetterPage
	if len(rows) > limit {
		rows = rows[:limit]
		last := rows[limit-1]
		page.Next = &DeadLetterCursor{DiedAt: *last.DeadAt, ID: last.ID}
	}
	page.Letters, err = s.withHistory(ctx, plain(rows))
	return page, err
}

// DeadLetter returns one dead letter, or ErrNotFound when there is no such message or it is not dead.
func (s *Store) DeadLetter(ctx context.Context, queue string, id int64) (DeadLetter, error) {
	m, err := s.Get(ctx, queue, id)
	if err != nil {
		return DeadLetter{}, err
	}
	if m.Status != message.Dead {
		return DeadLetter{}, ErrNotFound
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	letters, err := s.withHistory(ctx, []message.Message{m})
	if err != nil {
		return DeadLetter{}, err
	}
	return letters[0], nil
}

const attemptsSQL = `
SELECT message_id, number, started_at, ended_at, outcome, instance, version, reason, category, fingerprint, error_class,
    coalesce(stack_trace, '')
FROM {schema}.attempt WHERE message_id = ANY ($1) ORDER BY message_id, number`

const replaysSQL = `
SELECT message_id, replayed_at, source, died_at, category, fingerprint, coalesce(moved_from, '')
FROM {schema}.replay WHERE message_id = ANY ($1) ORDER BY message_id, number`

// withHistory adds attempts and replays, and to the last failure the stack that only its attempt holds.
func (s *Store) withHistory(ctx context.Context, messages []message.Message) ([]DeadLetter, error) {
	ids := make([]int64, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	attempts, err := collect(ctx, s.pool, scanAttempt, s.sql(attemptsSQL), ids)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	replays, err := collect(ctx, s.pool, scanReplay, s.sql(replaysSQL), ids)
	if err != nil {
		return nil, fmt.Errorf("read replays: %w", err)
	}
	revisions, err := collect(ctx, s.pool, scanRevision, s.sql(revisionsSQL), ids)
	if err != nil {
		return nil, fmt.Errorf("read revisions: %w", err)
	}
	letters := make([]DeadLetter, len(messages))
	byID := make(map[int64]*DeadLetter, len(messages))
	for i, m := range messages {
		letters[i].Message = m
		byID[m.ID] = &letters[i]
	}
	for _, a := range attempts {
		letter := byID[a.messageID]
		letter.Attempts = append(letter.Attempts, a.Attempt)
		if a.Failure != nil && letter.Message.LastFailure != nil {
			letter.Message.LastFailure.StackTrace = a.Failure.StackTrace
		}
	}
	for _, r := range replays {
		byID[r.messageID].Replays = append(byID[r.messageID].Replays, r.Replay)
	}
	for _, r := range revisions {
		byID[r.messageID].Revisions = append(byID[r.messageID].Revisions, r.Revision)
	}
	return letters, nil
}

type attemptRow struct {
	message.Attempt
	messageID int64
}

func scanAttempt(row pgx.CollectableRow) (attemptRow, error) {
	var (
		a      attemptRow
		failed failureColumns
		stack  string
	)
	err := row.Scan(&a.messageID, &a.Number, &a.StartedAt, &a.EndedAt, &a.Outcome, &a.Consumer.Instance,
		&a.Consumer.Version, &failed.reason, &failed.category, &failed.fingerprint, &failed.class, &stack)
	if err != nil {
		return a, err //nolint:wrapcheck // wrapped by the operation
	}
	a.StartedAt, a.EndedAt = a.StartedAt.UTC(), a.EndedAt.UTC()
	if a.Failure = failed.failure(); a.Failure != nil {
		a.Failure.StackTrace, a.Failure.Consumer, a.Failure.At = stack, a.Consumer, a.EndedAt
	}
	return a, nil
}

type replayRow struct {
	message.Replay
	messageID int64
}

func scanReplay(row pgx.CollectableRow) (replayRow, error) {
	var r replayRow
	err := row.Scan(&r.messageID, &r.At, &r.Source, &r.DiedAt, &r.Category, &r.Fingerprint, &r.MovedFrom)
	r.At, r.DiedAt = r.At.UTC(), r.DiedAt.UTC()
	return r, err //nolint:wrapcheck // wrapped by the operation
}

const groupsSQL = `
WITH grouped AS (
    SELECT m.fingerprint, count(*) AS letters, min(m.dead_at) AS first, max(m.dead_at) AS last
    FROM {schema}.message m
    WHERE m.queue_id = ` + queueIDSQL + ` AND m.status = 'dead'
    GROUP BY m.fingerprint ORDER BY letters DESC, m.fingerprint LIMIT $2
)
SELECT g.fingerprint, sample.failure_category, g.letters, g.first, g.last, sample.id, sample.failure_reason,
    coalesce(versions.list, '{}')
FROM grouped g
CROSS JOIN LATERAL (
    SELECT m.id, m.failure_category, m.failure_reason FROM {schema}.message m
    WHERE m.queue_id = ` + queueIDSQL + ` AND m.status = 'dead'
        AND m.fingerprint = g.fingerprint
    ORDER BY m.dead_at DESC, m.id DESC LIMIT 1
) sample
LEFT JOIN LATERAL (
    SELECT array_agg(v.failed_version ORDER BY v.failed_version) AS list FROM (
        SELECT DISTINCT m.failed_version FROM {schema}.message m
        WHERE m.queue_id = ` + queueIDSQL + ` AND m.status = 'dead'
            AND m.fingerprint = g.fingerprint AND m.failed_version <> ''
        ORDER BY m.failed_version LIMIT $3
    ) v
) versions ON true
ORDER BY g.letters DESC, g.fingerprint`

// DeadLetterGroups returns up to limit groups of a queue's dead letters, largest first.
func (s *Store) DeadLetterGroups(ctx context.Context, queue string, limit int) ([]Group, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	groups, err := collect(ctx, s.pool, func(row pgx.CollectableRow) (Group, error) {
		var g Group
		err := row.Scan(&g.Fingerprint, &g.Category, &g.Count, &g.FirstDiedAt, &g.LastDiedAt, &g.SampleID,
			&g.SampleReason, &g.ConsumerVersions)
		g.FirstDiedAt, g.LastDiedAt = g.FirstDiedAt.UTC(), g.LastDiedAt.UTC()
		return g, err //nolint:wrapcheck // wrapped below
	}, s.sql(groupsSQL), queue, limit, MaxGroupVersions)
	if err != nil {
		return nil, fmt.Errorf("group dead letters: %w", err)
	}
	return groups, nil
}
