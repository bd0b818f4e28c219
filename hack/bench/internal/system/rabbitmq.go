package system

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"deadletter.dev/deadletter/hack/bench/internal/load"
	"deadletter.dev/deadletter/hack/bench/internal/server"
)

// RabbitMQ is a quorum queue of one node.
var RabbitMQ = Kind{
	Name: "RabbitMQ quorum",
	About: "RabbitMQ 3.10 quorum queue, one node; publisher confirms; prefetch 2000; each message acknowledged, or up to " +
		"100 at once where batches are sent",
	Window:  20_000,
	Missing: server.RabbitMQMissing,
	Start:   startRabbitMQ,
}

const (
	rabbitQueue    = "bench"
	rabbitPrefetch = 2000
	rabbitWorkers  = 2
)

type rabbit struct {
	server *server.RabbitMQ
	conn   *amqp.Connection
	// together is how many messages are acknowledged by one frame at most.
	together int
}

func startRabbitMQ(ctx context.Context, setup Setup) (System, error) {
	running, err := server.StartRabbitMQ(ctx)
	if err != nil {
		return nil, err
	}
	queue := &rabbit{server: running, together: setup.Batch}
	if err := queue.declare(); err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	return queue, nil
}

func (r *rabbit) declare() error {
	conn, err := amqp.Dial(r.server.URL())
	if err != nil {
		return err
	}
	r.conn = conn
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	_, err = channel.QueueDeclare(rabbitQueue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	return err
}

func (r *rabbit) Processes() []int { return []int{r.server.PID()} }

func (r *rabbit) Close() error {
	var err error
	if r.conn != nil {
		err = r.conn.Close()
	}
	return errors.Join(err, r.server.Stop())
}

// Work acknowledges without waiting, since the protocol has no answer to that; in the end the queue must be empty.
func (r *rabbit) Work(ctx context.Context, events load.Events) error {
	failed := make(chan error, rabbitWorkers)
	for range rabbitWorkers {
		channel, err := r.conn.Channel()
		if err != nil {
			return err
		}
		defer channel.Close()
		if err := channel.Qos(rabbitPrefetch, 0, false); err != nil {
			return err
		}
		deliveries, err := channel.Consume(rabbitQueue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		go func() { failed <- r.consume(deliveries, events) }()
	}
	events.Ready()
	select {
	case err := <-failed:
		return fmt.Errorf("consume: %w", err)
	case <-ctx.Done():
	}
	if err := r.waitEmpty(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return ctx.Err()
}

// consume acknowledges when enough are together, or when nothing more waits.
func (r *rabbit) consume(deliveries <-chan amqp.Delivery, events load.Events) error {
	held := make([][]byte, 0, r.together)
	for delivery := range deliveries {
		events.Delivered(delivery.Body)
		held = append(held, delivery.Body)
		if len(held) < r.together && len(deliveries) > 0 {
			continue
		}
		if err := delivery.Ack(len(held) > 1); err != nil {
			return err
		}
		for _, payload := range held {
			events.Acked(payload)
		}
		held = held[:0]
	}
	return errors.New("the channel was closed")
}

func (r *rabbit) waitEmpty(ctx context.Context) error {
	channel, err := r.conn.Channel()
	if err != nil {
		return err
	}
	defer channel.Close()
	return waitEmpty(ctx, func() (int, error) {
		queue, err := channel.QueueDeclarePassive(rabbitQueue, true, false, false, false,
			amqp.Table{"x-queue-type": "quorum"})
		return queue.Messages, err
	})
}

func (r *rabbit) Open(context.Context) (load.Session, error) {
	conn, err := amqp.Dial(r.server.URL())
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &rabbitSession{conn: conn, channel: channel}, nil
}

type rabbitSession struct {
	conn    *amqp.Connection
	channel *amqp.Channel
}

func (s *rabbitSession) Close() error { return s.conn.Close() }

func (s *rabbitSession) Enqueue(ctx context.Context, payloads [][]byte) error {
	confirms := make([]*amqp.DeferredConfirmation, len(payloads))
	for i, payload := range payloads {
		confirm, err := s.channel.PublishWithDeferredConfirmWithContext(ctx, "", rabbitQueue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: payload, Timestamp: time.Now()})
		if err != nil {
			return err
		}
		confirms[i] = confirm
	}
	for _, confirm := range confirms {
		confirmed, err := confirm.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !confirmed {
			return errors.New("the broker refused a message")
		}
	}
	return nil
}
