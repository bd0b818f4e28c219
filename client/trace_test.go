package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// recordedSpans are the spans of a test, by name.
func recordedSpans(t *testing.T) (*trace.TracerProvider, func(name string) []tracetest.SpanStub) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	return provider, func(name string) []tracetest.SpanStub {
		var spans []tracetest.SpanStub
		for _, span := range exporter.GetSpans() {
			if span.Name == name {
				spans = append(spans, span)
			}
		}
		return spans
	}
}

// TestTracesGoFromTheEnqueueToTheHandler: producer and worker share nothing but the message.
func TestTracesGoFromTheEnqueueToTheHandler(t *testing.T) {
	t.Parallel()
	produced, producedSpans := recordedSpans(t)
	handled, handledSpans := recordedSpans(t)
	producer := newBench(t, WithTracerProvider(produced))
	consumer := newBench(t, WithTracerProvider(handled))
	consumer.queue = producer.queue

	ctx, request := produced.Tracer("test").Start(t.Context(), "request")
	stored, err := producer.Enqueue(ctx, producer.queue, NewMessage{
		Payload: []byte("x"), Headers: []Header{{"tenant", "acme"}}, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	request.End()
	if stored.Header("tenant") != "acme" || stored.Header("traceparent") == "" {
		t.Errorf("the headers are %v", stored.Headers)
	}
	within := make(chan oteltrace.SpanContext, 1)
	w := consumer.start(Worker{Handler: func(ctx context.Context, _ *Message) error {
		within <- oteltrace.SpanContextFromContext(ctx)
		return &cardError{7}
	}})
	consumer.awaitStatus(stored.ID, Dead)
	if err := w.end(); err != nil {
		t.Error(err)
	}

	sent, processed := producedSpans("enqueue "+producer.queue), handledSpans("process "+producer.queue)
	if len(sent) != 1 || len(processed) != 1 {
		t.Fatalf("%d spans of enqueues, %d of handling", len(sent), len(processed))
	}
	parent, child := sent[0], processed[0]
	if parent.Parent.SpanID() != request.SpanContext().SpanID() || child.Parent.SpanID() != parent.SpanContext.SpanID() ||
		child.SpanContext.TraceID() != request.SpanContext().TraceID() || !child.Parent.IsRemote() {
		t.Errorf("the chain is broken: %v <- %v <- %v", request.SpanContext(), parent.Parent, child.Parent)
	}
	if inside := <-within; inside.SpanID() != child.SpanContext.SpanID() {
		t.Error("the handler's context is not that of its span")
	}
	if parent.SpanKind != oteltrace.SpanKindProducer || child.SpanKind != oteltrace.SpanKindConsumer ||
		parent.Status.Code != codes.Unset || child.Status.Code != codes.Error || child.Status.Description != "card 7" {
		t.Errorf("kinds %v, %v; states %v, %v", parent.SpanKind, child.SpanKind, parent.Status, child.Status)
	}
	id := strconv.FormatInt(stored.ID, 10)
	for _, span := range []tracetest.SpanStub{parent, child} {
		for _, want := range []attribute.KeyValue{
			attrSystem.String("deadletter"), attrDestination.String(producer.queue), attrMessageID.String(id),
		} {
			if !slices.Contains(span.Attributes, want) {
				t.Errorf("%s has no attribute %v", span.Name, want)
			}
		}
	}
	if !slices.Contains(child.Attributes, attrErrorType.String("client.cardError")) {
		t.Errorf("the attributes are %v", child.Attributes)
	}
}

// TestRetriedTracesAreOfOneMessage: an enqueue under a key is the same message, in whatever trace it is made again.
func TestRetriedTracesAreOfOneMessage(t *testing.T) {
	t.Parallel()
	provider, _ := recordedSpans(t)
	b := newBench(t, WithTracerProvider(provider))
	m := NewMessage{Payload: []byte("x"), DeduplicationID: "x"}
	if first, again := b.put(m), b.put(m); first.ID != again.ID {
		t.Errorf("it was stored twice: %d, %d", first.ID, again.ID)
	}
}

func TestTraceContextIsNotOverwritten(t *testing.T) {
	t.Parallel()
	provider, spans := recordedSpans(t)
	b := newBench(t, WithTracerProvider(provider))
	const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := make([]Header, 1, 10)
	own[0] = Header{"traceparent", theirs}
	full := make([]Header, 100)
	for i := range full {
		full[i] = Header{strconv.Itoa(i), ""}
	}
	batch := []NewMessage{{Payload: []byte("x"), Headers: own}, {Payload: []byte("y"), Headers: full}, text("z")}
	stored, err := b.EnqueueBatch(t.Context(), b.queue, batch)
	if err != nil {
		t.Fatal(err)
	}
	if len(stored[0].Headers) != 1 || stored[0].Header("traceparent") != theirs || len(stored[1].Headers) != 100 ||
		stored[2].Header("traceparent") == "" || batch[2].Headers != nil || own[:2][1].Name != "" {
		t.Errorf("%v, %d headers, %v", stored[0].Headers, len(stored[1].Headers), stored[2].Headers)
	}
	sent := spans("enqueue " + b.queue)
	if len(sent) != 1 || !slices.Contains(sent[0].Attributes, attrBatchCount.Int(3)) {
		t.Errorf("the spans are %v", sent)
	}
	if got := b.wire.header("Traceparent"); got != stored[2].Header("traceparent") {
		t.Errorf("the request has the trace context %q", got)
	}
	if _, err := b.Enqueue(t.Context(), b.queue, NewMessage{}); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if last := spans("enqueue " + b.queue)[1]; last.Status.Code != codes.Error {
		t.Errorf("a refused enqueue ends with %v", last.Status)
	}
}

// TestMessagesWithoutATraceBeginOne: the worker's own context is not their story.
func TestMessagesWithoutATraceBeginOne(t *testing.T) {
	t.Parallel()
	provider, _ := recordedSpans(t)
	c, err := New("http://h", WithTracerProvider(provider))
	if err != nil {
		t.Fatal(err)
	}
	ctx, outer := provider.Tracer("test").Start(t.Context(), "outer")
	defer outer.End()
	ctx, span := c.startProcess(ctx, &Message{Queue: "q"})
	defer span.End()
	if oteltrace.SpanContextFromContext(ctx).TraceID() == outer.SpanContext().TraceID() {
		t.Error("the span is part of the worker's trace")
	}
}
