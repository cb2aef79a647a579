package trace

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

const (
	maxSpans     = 2048             // spans neither sent nor dropped
	sendInterval = 2 * time.Second  // maximum time before a batch is sent
	sendTimeout  = 20 * time.Second // maximum time to send one batch, including retries
	stopTimeout  = 3 * time.Second  // maximum time to send all batches at shutdown
)

// Options configure a Tracer.
type Options struct {
	Endpoint  string      // URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318
	Headers   http.Header // for authentication
	Sample    float64     // share of traces sampled, from 0 to 1; for a trace begun by the client, the client decides
	Version   string
	OnFailure func(error)
}

// Tracer makes spans, and is safe for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   api.Tracer
	client   *client
	queue    *queue
}

// New returns a Tracer, and starts no goroutine.
func New(o Options) (*Tracer, error) {
	c, err := newClient(o.Endpoint, o.Headers)
	if err != nil {
		return nil, err
	}
	if o.OnFailure != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(o.OnFailure)) // the SDK's handler prints to standard error
	}
	t := &Tracer{client: c, queue: &queue{inner: otlptrace.NewUnstarted(c), failed: o.OnFailure}}
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Sample))),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "precept"), attribute.String("service.version", o.Version),
		)),
		sdk.WithSpanProcessor(t.queue),
	)
	t.tracer = t.provider.Tracer("precept", api.WithInstrumentationVersion(o.Version))
	return t, nil
}

// Run sends spans until ctx ends, and then sends the rest within stopTimeout.
func (t *Tracer) Run(ctx context.Context) error {
	batches := sdk.NewBatchSpanProcessor(t.queue,
		sdk.WithMaxQueueSize(maxSpans), sdk.WithBatchTimeout(sendInterval), sdk.WithExportTimeout(sendTimeout))
	t.queue.setProcessor(batches)
	<-ctx.Done()
	t.queue.setProcessor(nil)
	t.client.stopRetries()
	cutTimer := time.AfterFunc(stopTimeout, t.client.endLifetime) // later sends fail without waiting
	defer cutTimer.Stop()
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*stopTimeout)
	defer cancel()
	err := batches.Shutdown(shutdownCtx)
	t.client.close()
	return err
}

// Sent returns the number of spans accepted by the collector.
func (t *Tracer) Sent() int64 { return t.queue.sent.Load() }

// Dropped returns the number of spans rejected by the collector, or dropped because the queue was full or Run was not
// running.
func (t *Tracer) Dropped() int64 { return t.queue.dropped.Load() }

// Start starts a turn's span. The client's headers can name the parent span. The span is nil for an unsampled turn.
func (t *Tracer) Start(ctx context.Context, h http.Header, at time.Time) *Span {
	if t == nil {
		return nil
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
	parent := api.SpanContextFromContext(ctx)
	_, span := t.tracer.Start(ctx, "chat", api.WithTimestamp(at), api.WithSpanKind(api.SpanKindClient))
	if !span.IsRecording() {
		return nil
	}
	return &Span{span: span, hasParent: parent.IsValid()}
}

// queue passes spans to the SDK's batches, exports the batches, and counts the spans in between.
type queue struct {
	inner  sdk.SpanExporter
	failed func(error)

	batches    atomic.Pointer[sdk.SpanProcessor]
	unfinished atomic.Int64 // neither sent nor dropped
	sent       atomic.Int64
	dropped    atomic.Int64
}

// setProcessor sets the processor for further spans. If p is nil, every span is dropped.
func (q *queue) setProcessor(p sdk.SpanProcessor) {
	if p == nil {
		q.batches.Store(nil)
		return
	}
	q.batches.Store(&p)
}

// OnStart implements sdk.SpanProcessor.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. It counts the spans for which the SDK has no room, because the SDK would drop
// them silently.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	batches := q.batches.Load()
	if batches == nil || q.unfinished.Add(1) > maxSpans {
		if batches != nil {
			q.unfinished.Add(-1)
		}
		q.dropped.Add(1)
		return
	}
	(*batches).OnEnd(s)
}

// ExportSpans implements sdk.SpanExporter. Failures go to q.failed and are not returned, because the SDK would print
// them.
func (q *queue) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := q.inner.ExportSpans(ctx, spans)
	n := int64(len(spans))
	q.unfinished.Add(-n)
	lost := n
	if partial, ok := errors.AsType[*partialRejection](err); ok {
		lost = min(partial.spans, n)
	} else if err == nil {
		lost = 0
	}
	q.sent.Add(n - lost)
	q.dropped.Add(lost)
	if err != nil && q.failed != nil {
		q.failed(err)
	}
	return nil
}

// Shutdown implements sdk.SpanProcessor and sdk.SpanExporter. Run does the work.
func (q *queue) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (q *queue) ForceFlush(context.Context) error { return nil }
