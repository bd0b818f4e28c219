package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// notifyBytes bounds one payload; Postgres takes less than 8,000 bytes.
	notifyBytes = 7900
	// listenProbe is how long a listening connection may be silent before it is asked whether it still lives.
	listenProbe = 30 * time.Second
)

// notifySQL sends payloads. Nobody needs them after a crash, so the commit does not wait for the disk.
const notifySQL = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload)
FROM unnest($2::text[]) AS p (payload)`

// readyNotice is the payload of a notification. Every session of the database can read it, so it holds names alone.
type readyNotice struct {
	// From is the store that sent it, which has no use for it.
	From   string   `json:"from"`
	Queues []string `json:"queues"`
}

// readyChannel is the channel of a schema. Channels are shared by the whole database, and as long as any identifier,
// which a schema's name may fill alone.
func readyChannel(schema string) string {
	const kept = 16
	sum := sha256.Sum256([]byte(schema))
	return "deadletter_" + hex.EncodeToString(sum[:kept])
}

// NotifyReady tells the other stores of the schema that listen that queues may have something to claim. It is one
// statement, in no transaction with a message.
func (s *Store) NotifyReady(ctx context.Context, queues []string) error {
	payloads := readyPayloads(s.sender, queues)
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := s.pool.Exec(ctx, notifySQL, readyChannel(s.schema), payloads); err != nil {
		return fmt.Errorf("notify of ready queues: %w", err)
	}
	return nil
}

// readyPayloads spreads names over as few payloads as hold them in their order.
func readyPayloads(sender string, queues []string) []string {
	var payloads []string
	var chunk []string
	frame := len(encodeNotice(sender, []string{}))
	size := frame
	for _, queue := range queues {
		// A name takes its own JSON and a comma.
		need := len(encodeNotice(sender, []string{queue})) - frame + 1
		if frame+need > notifyBytes {
			continue // No queue has such a name.
		}
		if size+need > notifyBytes {
			payloads = append(payloads, encodeNotice(sender, chunk))
			chunk, size = nil, frame
		}
		chunk, size = append(chunk, queue), size+need
	}
	if len(chunk) > 0 {
		payloads = append(payloads, encodeNotice(sender, chunk))
	}
	return payloads
}

func encodeNotice(sender string, queues []string) string {
	text, _ := json.Marshal(readyNotice{From: sender, Queues: queues}) //nolint:errchkjson // strings can be encoded
	return string(text)
}

// ErrNotListening means that nothing can be heard, because a pooler lends sessions for a transaction only.
var ErrNotListening = errors.New("nobody can listen through a pooler in transaction mode")

// ListenReady calls wake with the names that other stores of the schema send, on a connection of its own, until ctx
// ends or the connection breaks; it returns why. The first call, with no names, says that it listens from now on. What
// is sent while nobody listens is lost. Through a pooler that shares sessions it returns ErrNotListening.
func (s *Store) ListenReady(ctx context.Context, wake func(queues []string)) error {
	if s.pooler.shares() {
		return ErrNotListening
	}
	conn, err := pgx.ConnectConfig(ctx, s.listenConfig())
	if err != nil {
		return fmt.Errorf("connect to listen for ready queues: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = conn.Close(closing) // It is broken, or not needed any more.
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{readyChannel(s.schema)}.Sanitize()); err != nil {
		return fmt.Errorf("listen for ready queues: %w", err)
	}
	wake(nil)
	for {
		if err := s.awaitNotice(ctx, conn, wake); err != nil {
			return fmt.Errorf("listen for ready queues: %w", err)
		}
	}
}

// listenConfig is the pool's way to the database, for a session that is idle by nature.
func (s *Store) listenConfig() *pgx.ConnConfig {
	config := s.connConfig.Copy()
	config.RuntimeParams["idle_session_timeout"] = "0"
	return config
}

// awaitNotice takes one notification, or makes sure after a time of silence that the connection lives.
func (s *Store) awaitNotice(ctx context.Context, conn *pgx.Conn, wake func(queues []string)) error {
	waiting, cancel := context.WithTimeout(ctx, listenProbe)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if err == nil {
		var notice readyNotice
		// What cannot be read is not from a store; anybody may send to the channel.
		if json.Unmarshal([]byte(notification.Payload), &notice) == nil && notice.From != "" &&
			notice.From != s.sender && len(notice.Queues) > 0 {
			wake(notice.Queues)
		}
		return nil
	}
	if ctx.Err() != nil || !errors.Is(waiting.Err(), context.DeadlineExceeded) || conn.IsClosed() {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	probing, stop := s.bound(ctx)
	defer stop()
	return conn.Ping(probing) //nolint:wrapcheck // wrapped by the caller
}
