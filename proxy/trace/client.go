package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	attempts        = 4           // including the first attempt
	firstPause      = time.Second // pause before the second attempt; each further pause is twice as long
	maxAnswerBytes  = 64 << 10    // bytes read from a response
	maxMessageBytes = 200         // bytes logged from a collector's error text
)

// client sends span batches. It replaces the SDK's HTTP client, which imports gRPC (1.8 MB of unused code).
type client struct {
	url         string
	headers     http.Header
	http        *http.Client
	lifetime    context.Context // ends when sending must stop
	endLifetime context.CancelFunc
	noRetries   chan struct{} // closed when batches are no longer retried
}

func newClient(endpoint string, headers http.Header) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("otel.endpoint is not an http or https URL: %q", endpoint)
	}
	if u.Path = strings.TrimRight(u.Path, "/"); !strings.HasSuffix(u.Path, "/v1/traces") {
		u.Path += "/v1/traces"
	}
	life, cut := context.WithCancel(context.Background())
	return &client{
		url: u.String(), headers: headers, lifetime: life, endLifetime: cut, noRetries: make(chan struct{}),
		http: &http.Client{
			Timeout:       sendTimeout / 2,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// stopRetries ends the retries, and the current pauses, when precept stops.
func (c *client) stopRetries() { close(c.noRetries) }

func (c *client) close() {
	c.endLifetime()
	c.http.CloseIdleConnections()
}

// Start implements otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (c *client) UploadTraces(ctx context.Context, spans []*wire.ResourceSpans) error {
	// ExportTraceServiceRequest has the same encoding as TracesData, but that package imports gRPC.
	body, err := proto.Marshal(&wire.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(c.lifetime, cancel) //nolint:contextcheck // the request ends with ctx or c.lifetime
	defer stop()
	pause := firstPause
	for n := 1; ; n++ {
		err := c.post(ctx, body)
		later, ok := errors.AsType[*retryableError](err)
		if !ok || n == attempts || !c.pause(ctx, max(later.after, pause)) {
			return err
		}
		pause *= 2
	}
}

// pause waits for d. It returns false if the next attempt must not start.
func (c *client) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.noRetries:
	case <-ctx.Done():
	}
	return false
}

// retryableError means that a later attempt may succeed.
type retryableError struct {
	err   error
	after time.Duration // wait requested by the collector, or 0
}

func (b *retryableError) Error() string { return b.err.Error() }
func (b *retryableError) Unwrap() error { return b.err }

type partialRejection struct {
	spans   int64
	message string
}

func (r *partialRejection) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %s", r.spans, r.message)
}

func (c *client) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	maps.Copy(r.Header, c.headers)
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "precept")
	res, err := c.http.Do(r)
	if err != nil {
		return &retryableError{err: fmt.Errorf("send spans: %w", err)}
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	switch {
	case res.StatusCode/100 == 2 && err == nil:
		return parseRejection(answer)
	case res.StatusCode/100 == 2:
		return nil // the spans were accepted, and only the response body is incomplete
	}
	err = fmt.Errorf("the collector answers %s; check otel.endpoint and otel.headers", res.Status)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &retryableError{err: err, after: time.Duration(max(seconds, 0)) * time.Second}
	}
	return err
}

// parseRejection returns an error if the response rejects spans. It reads field 1 (partial_success), which has the
// fields 1 (rejected_spans) and 2 (error_message). An unreadable response rejects no span.
func parseRejection(answer []byte) error {
	rejection := &partialRejection{}
	for _, inner := range protoFields(answer, 1) {
		for _, n := range protoFields(inner.bytes, 1) {
			rejection.spans = int64(n.number)
		}
		for _, m := range protoFields(inner.bytes, 2) {
			rejection.message = string(m.bytes[:min(len(m.bytes), maxMessageBytes)])
		}
	}
	if rejection.spans <= 0 {
		return nil
	}
	return rejection
}

// protoValue is one protobuf field: bytes or number.
type protoValue struct {
	bytes  []byte
	number uint64
}

func protoFields(b []byte, want protowire.Number) (out []protoValue) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out
		}
		b = b[n:]
		var v protoValue
		switch kind {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return out
		}
		b = b[n:]
		if number == want {
			out = append(out, v)
		}
	}
	return out
}
