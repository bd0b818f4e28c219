package system

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

// NATS is a work queue of JetStream.
var NATS = Kind{
	Name: "NATS JetStream",
	About: "nats-server 2.15 with sync_interval always, file storage, one replica; work-queue stream; publishes are " +
		"confirmed, batches are atomic; each message is acknowledged",
	Window: 20_000,
	Start:  startNATS,
}

const (
	natsStream  = "BENCH"
	natsSubject = "bench"
	// natsFetch is how many messages a consumer asks for ahead.
	natsFetch = 2000
	// emptyLimit is how long a broker has to work off acknowledgements that were sent.
	emptyLimit = 10 * time.Second
)

type natsQueue struct {
	server *server.NATS
	conn   *nats.Conn
	stream jetstream.Stream
	worker jetstream.Consumer
}

func startNATS(ctx context.Context, _ Setup) (System, error) {
	running, err := server.StartNATS(ctx)
	if err != nil {
		return nil, err
	}
	queue := &natsQueue{server: running}
	if err := queue.create(ctx); err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	return queue, nil
}

func (q *natsQueue) create(ctx context.Context) error {
	conn, err := nats.Connect(q.server.URL())
	if err != nil {
		return err
	}
	q.conn = conn
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	q.stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{natsSubject}, Storage: jetstream.FileStorage,
		Retention: jetstream.WorkQueuePolicy, AllowAtomicPublish: true,
	})
	if err != nil {
		return err
	}
	q.worker, err = q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2 * natsFetch,
	})
	return err
}

func (q *natsQueue) Processes() []int { return []int{q.server.PID()} }

func (q *natsQueue) Close() error {
	if q.conn != nil {
		q.conn.Close()
	}
	return q.server.Stop()
}

// Work acknowledges without waiting for the server's word: a lost acknowledgement costs a redelivery. That all of them
// arrived is seen in the end, when the stream must be empty.
func (q *natsQueue) Work(ctx context.Context, events load.Events) error {
	failed := make(chan error, 1)
	consuming, err := q.worker.Consume(func(message jetstream.Msg) {
		events.Delivered(message.Data())
		if err := message.Ack(); err != nil {
			select {
			case failed <- err:
			default:
			}
			return
		}
		events.Acked(message.Data())
	}, jetstream.PullMaxMessages(natsFetch))
	if err != nil {
		return err
	}
	events.Ready()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	empty := q.waitEmpty(context.WithoutCancel(ctx))
	consuming.Stop()
	<-consuming.Closed()
	if empty != nil {
		return empty
	}
	return err
}

func (q *natsQueue) waitEmpty(ctx context.Context) error {
	return waitEmpty(ctx, func() (left int, err error) {
		info, err := q.stream.Info(ctx)
		if err != nil {
			return 0, err
		}
		return int(info.State.Msgs), nil //nolint:gosec // what was sent, a few million
	})
}

// waitEmpty fails when a broker still has messages though all of them have been acknowledged.
func waitEmpty(ctx context.Context, count func() (int, error)) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(emptyLimit); ; {
		left, err := count()
		switch {
		case err != nil:
			return fmt.Errorf("count what is left: %w", err)
		case left == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%d messages are left after all were acknowledged", left)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (q *natsQueue) Open(context.Context) (load.Session, error) {
	conn, err := nats.Connect(q.server.URL())
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsSession{conn: conn, js: js}, nil
}

type natsSession struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

func (s *natsSession) Close() error {
	s.conn.Close()
	return nil
}

func (s *natsSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	if len(payloads) == 1 {
		_, err := s.js.Publish(ctx, natsSubject, payloads[0])
		return err
	}
	// A batch is confirmed, and flushed to the disk, as a whole; message by message it is ten times slower.
	batch := nuid.Next()
	for i, payload := range payloads {
		message := nats.NewMsg(natsSubject)
		message.Data = payload
		message.Header.Set("Nats-Batch-Id", batch)
		message.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i < len(payloads)-1 {
			if err := s.conn.PublishMsg(message); err != nil {
				return err
			}
			continue
		}
		message.Header.Set("Nats-Batch-Commit", "1")
		if _, err := s.js.PublishMsg(ctx, message); err != nil {
			return err
		}
	}
	return nil
}
