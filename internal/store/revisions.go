package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"deadletter.dev/deadletter/internal/message"
)

const revisionsSQL = `
SELECT message_id, number, edited_at, source, octet_length(payload)
FROM {schema}.message_revision WHERE message_id = ANY ($1) ORDER BY message_id, number`

type revisionRow struct {
	message.Revision

	messageID int64
}

func scanRevision(row pgx.CollectableRow) (r revisionRow, err error) {
	err = row.Scan(&r.messageID, &r.Number, &r.At, &r.Source, &r.Size)
	r.At = r.At.UTC()
	return r, err //nolint:wrapcheck // wrapped by the operation
}

const revisionSQL = `
SELECT r.payload FROM {schema}.message_revision r JOIN {schema}.message m ON m.id = r.message_id
WHERE m.queue_id = ` + queueIDSQL + ` AND m.id = $2 AND r.number = $3`

// Revision returns the payload of a message as it was before an edit, or ErrNotFound. The first is what was enqueued.
func (s *Store) Revision(ctx context.Context, queue string, id int64, number int) ([]byte, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	payload, err := one(collect(ctx, s.pool, pgx.RowTo[[]byte], s.sql(revisionSQL), queue, id, number))
	if err != nil {
		return nil, fmt.Errorf("read revision: %w", err)
	}
	return payload, nil
}
