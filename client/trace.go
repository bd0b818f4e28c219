package client

import (
	"context"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of OpenTelemetry's conventions for messaging.
const (
	attrSystem        = attribute.Key("messaging.system")
	attrOperationName = attribute.Key("messaging.operation.name")
	attrOperationType = attribute.Key("messaging.operation.type")
	attrDestination   = attribute.Key("messaging.destination.name")
	attrMessageID     = attribute.Key("messaging.message.id")
	attrBodySize      = attribute.Key("messaging.message.body.size")
	attrBatchCount    = attribute.Key("messaging.batch.message_count")
	attrErrorType     = attribute.Key("error.type")
	// attrRetryCount is ours.
	attrRetryCount = attribute.Key("deadletter.message.retry_count")
)

func tracerOf(provider trace.TracerProvider, version string) trace.Tracer {
	return provider.Tracer(modulePath, trace.WithInstrumentationVersion(version))
}

func (c *Client) startSend(ctx context.Context, queue string, count int) (context.Context, trace.Span) {
	attributes := []attribute.KeyValue{
		attrSystem.String("deadletter"), attrOperationName.String("enqueue"), attrOperationType.String("send"),
		attrDestination.String(queue),
	}
	if count > 1 {
		attributes = append(attributes, attrBatchCount.Int(count))
	}
	ctx, span := c.tracer.Start(ctx, "enqueue "+queue, //nolint:spancheck // endSend ends it
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	return ctx, span //nolint:spancheck // as above
}

// endSend ends the span of an enqueue; stored is nil for a batch.
func endSend(span trace.Span, stored *Message, err error) {
	if stored != nil {
		span.SetAttributes(attrMessageID.String(strconv.FormatInt(stored.ID, 10)))
	}
	endSpan(span, err)
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(attrErrorType.String(classOf(err)))
	}
	span.End()
}

// startProcess starts the span of a message's handling. Its parent is the enqueue, however long ago that was, so that
// one trace tells the message's whole story, retries included.
func (c *Client) startProcess(ctx context.Context, m *Message) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attrSystem.String("deadletter"), attrOperationName.String("process"), attrOperationType.String("process"),
		attrDestination.String(m.Queue), attrMessageID.String(strconv.FormatInt(m.ID, 10)),
		attrBodySize.Int(m.PayloadSize), attrRetryCount.Int(m.RetryCount),
	)}
	sent := propagation.TraceContext{}.Extract(ctx, (*headerCarrier)(&m.Headers))
	if trace.SpanContextFromContext(sent).Equal(trace.SpanContextFromContext(ctx)) {
		options = append(options, trace.WithNewRoot()) // What the worker was started in is not the message's story.
	}
	ctx, span := c.tracer.Start(sent, "process "+m.Queue, options...) //nolint:spancheck // endSpan ends it
	return ctx, span                                                  //nolint:spancheck // as above
}

// maxOwnHeaders leaves room for the trace context below the most headers that a message may have.
const maxOwnHeaders = 98

// injectAll puts the trace context into the headers of messages that have none yet.
func injectAll(ctx context.Context, messages []NewMessage) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	for i := range messages {
		carrier := headerCarrier(messages[i].Headers)
		if carrier.Get("traceparent") != "" || len(carrier) > maxOwnHeaders {
			continue
		}
		carrier = slices.Clip(carrier) // The caller's list is not written to.
		propagation.TraceContext{}.Inject(ctx, &carrier)
		messages[i].Headers = carrier
	}
}

// headerCarrier lets a propagator read and write the headers of a message.
type headerCarrier []Header

// Get returns the value of a header.
func (c *headerCarrier) Get(name string) string {
	return Message{Headers: *c}.Header(name)
}

// Set adds a header.
func (c *headerCarrier) Set(name, value string) { *c = append(*c, Header{Name: name, Value: value}) }

// Keys are the names of all headers.
func (c *headerCarrier) Keys() []string {
	names := make([]string, len(*c))
	for i, h := range *c {
		names[i] = h.Name
	}
	return names
}
