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

// Limits of sending a batch to the collector.
const (
	attempts        = 4           // number of attempts to send a batch, including the first
	firstPause      = time.Second // pause before the second attempt; each further pause is twice as long
	maxAnswerBytes  = 64 << 10    // number of bytes of a response that are read
	maxMessageBytes = 200         // number of bytes of an error text of the collector that are logged
)

// client sends batches of spans. It replaces the SDK's HTTP client, which imports gRPC (1.8 MB of unused code). The SDK
// makes and encodes the batches.
type client struct {
	url         string
	headers     http.Header
	http        *http.Client
	lifetime    context.Context    // ends when no more batches may be sent
	endLifetime context.CancelFunc // ends lifetime
	noRetries   chan struct{}      // closed when batches are no longer retried
}

func newClient(endpoint string, headers http.Header) (*client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("the endpoint for traces is not an http or https URL: %q", endpoint)
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

// stopRetries ends the current pauses, and prevents further retries. Call stopRetries when precept stops.
func (c *client) stopRetries() { close(c.noRetries) }

// close cancels the requests in progress and closes the idle connections.
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
	// ExportTraceServiceRequest has the same encoding as TracesData, but its package imports gRPC.
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

// pause waits before the next attempt and reports whether the next attempt may start.
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

// retryableError is the error of a batch that a later attempt may deliver.
type retryableError struct {
	err   error
	after time.Duration // wait that the collector asks for, or 0
}

func (b *retryableError) Error() string { return b.err.Error() }
func (b *retryableError) Unwrap() error { return b.err }

// partialRejection is the error of a batch that the collector accepted in part.
type partialRejection struct {
	spans   int64
	message string
}

func (r *partialRejection) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %s", r.spans, r.message)
}

// post makes one attempt to send a batch.
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
		return nil // accepted; only the details of the response were cut
	}
	err = fmt.Errorf("the collector answers %s; check otel.endpoint and otel.headers", res.Status)
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &retryableError{err: err, after: time.Duration(max(seconds, 0)) * time.Second}
	}
	return err
}

// parseRejection returns the rejection in an ExportTraceServiceResponse, nil for none. The field 1 (partial_success) of
// the response has the fields 1 (rejected_spans) and 2 (error_message). A response that cannot be decoded rejects no
// span.
func parseRejection(answer []byte) error {
	r := &partialRejection{}
	for _, inner := range fieldsOf(answer, 1) {
		for _, n := range fieldsOf(inner.bytes, 1) {
			r.spans = int64(n.number)
		}
		for _, m := range fieldsOf(inner.bytes, 2) {
			r.message = string(m.bytes[:min(len(m.bytes), maxMessageBytes)])
		}
	}
	if r.spans <= 0 {
		return nil
	}
	return r
}

// value is the value of one field of a protobuf message. The type of the field decides whether bytes or number is set.
type value struct {
	bytes  []byte
	number uint64
}

// fieldsOf returns the values of the field with the wanted number in a message.
func fieldsOf(b []byte, want protowire.Number) (out []value) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out
		}
		b = b[n:]
		var v value
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
