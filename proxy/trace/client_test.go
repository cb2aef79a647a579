package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

// fakeCollector is a transport to a simulated collector, and records the time of each request.
type fakeCollector struct {
	times  []time.Duration                     // request times after the first request
	start  time.Time                           // first request's time
	answer func(n int) (*http.Response, error) // returns the response to request n, counted from 1
}

// RoundTrip implements http.RoundTripper.
func (f *fakeCollector) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	if f.start.IsZero() {
		f.start = time.Now()
	}
	f.times = append(f.times, time.Since(f.start))
	return f.answer(len(f.times))
}

func newResponse(code int, header http.Header, body io.Reader) (*http.Response, error) {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: header, Body: io.NopCloser(body)}, nil
}

func newTestClient(t *testing.T, answer func(n int) (*http.Response, error)) (*client, *fakeCollector) {
	t.Helper()
	c, err := newClient("http://collector:4318", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeCollector{answer: answer}
	c.http.Transport = f
	t.Cleanup(c.close)
	return c, f
}

// A batch of spans is sent up to four times. Each pause is twice as long as the previous pause, or lasts as long as
// Retry-After. After a permanent error, the batch is not sent again.
func TestBatchIsRetriedWithBackoff(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		answer func(n int) (*http.Response, error)
		times  []time.Duration // expected request times
		err    string
	}{
		"no connection": {
			func(int) (*http.Response, error) { return nil, errors.New("no route") },
			[]time.Duration{0, s, 3 * s, 7 * s},
			"no route",
		},
		"Retry-After is longer": {
			func(n int) (*http.Response, error) {
				return newResponse([]int{429, 503, 200}[n-1], http.Header{"Retry-After": {"5"}}, strings.NewReader(""))
			},
			[]time.Duration{0, 5 * s, 10 * s},
			"",
		},
		"Retry-After is negative": {
			func(n int) (*http.Response, error) {
				return newResponse([]int{502, 504, 200}[n-1], http.Header{"Retry-After": {"-3"}}, strings.NewReader(""))
			},
			[]time.Duration{0, s, 3 * s},
			"",
		},
		"Retry-After is a date": {
			func(n int) (*http.Response, error) {
				return newResponse([]int{503, 200}[n-1], http.Header{"Retry-After": {"Fri, 31 Dec 2999 23:59:59 GMT"}}, strings.NewReader(""))
			},
			[]time.Duration{0, s},
			"",
		},
		"permanent error": {
			func(int) (*http.Response, error) { return newResponse(400, nil, strings.NewReader("no")) },
			[]time.Duration{0},
			"Bad Request; check otel.endpoint and otel.headers",
		},
		"accepted, truncated response": {
			func(int) (*http.Response, error) {
				return newResponse(200, nil, io.MultiReader(strings.NewReader("\x0a"), brokenBody{}))
			},
			[]time.Duration{0},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := newTestClient(t, tc.answer)
				err := c.UploadTraces(t.Context(), nil)
				if !slices.Equal(f.times, tc.times) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got requests at %v, err = %v, want requests at %v, an error with %q (none if empty)", f.times, err, tc.times, tc.err)
				}
			})
		})
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// stopRetries, the end of the client's lifetime and a canceled context end the pause before the next attempt.
func TestStopEndsRetryPause(t *testing.T) {
	for name, end := range map[string]func(c *client, cancel func()){
		"stopRetries":      func(c *client, _ func()) { c.stopRetries() },
		"end of lifetime":  func(c *client, _ func()) { c.endLifetime() },
		"context canceled": func(_ *client, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f := newTestClient(t, func(int) (*http.Response, error) {
					return newResponse(503, http.Header{"Retry-After": {"86400"}}, strings.NewReader(""))
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- c.UploadTraces(ctx, nil) }()
				synctest.Wait()
				start := time.Now()
				end(c, cancel)
				if err := <-done; err == nil {
					t.Error("error = nil, want an error")
				} else if !time.Now().Equal(start) {
					t.Errorf("Now = %v, want %v", time.Now(), start)
				} else if len(f.times) != 1 {
					t.Errorf("times = %v, want 1 item", f.times)
				}
			})
		})
	}
}

func partialResponse(spans uint64, reason string) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), spans)
	inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), reason)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// parseRejection skips unknown fields. From an invalid response, parseRejection returns no rejected spans.
func TestParseRejectionReturnsRejectedSpans(t *testing.T) {
	unknownFields := protowire.AppendFixed64(protowire.AppendTag(nil, 9, protowire.Fixed64Type), 7)
	unknownFields = protowire.AppendString(protowire.AppendTag(unknownFields, 8, protowire.BytesType), "news")
	for name, tc := range map[string]struct {
		response []byte
		want     string
	}{
		"empty":                {nil, ""},
		"two spans":            {partialResponse(2, "too old"), "the collector rejected 2 spans: too old"},
		"reason, but no spans": {partialResponse(0, "slow down"), ""},
		"negative span count":  {partialResponse(1<<64-1, "?"), ""},
		"unknown fields":       {append(bytes.Clone(unknownFields), partialResponse(1, "x")...), "the collector rejected 1 spans: x"},
		"truncated":            {partialResponse(2, "too old")[:4], ""},
		"not protobuf":         {[]byte("<html>"), ""},
		"long reason":          {partialResponse(1, strings.Repeat("y", 9000)), "the collector rejected 1 spans: " + strings.Repeat("y", maxMessageBytes)},
	} {
		got := ""
		if err := parseRejection(tc.response); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: parseRejection = %q, want %q", name, got, tc.want)
		}
	}
}

func TestPartialRejectionHasRejectedSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		answer := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "answer")
		if r, ok := errors.AsType[*partialRejection](parseRejection(answer)); ok && r.spans <= 0 {
			t.Fatalf("parseRejection(%q) = %d rejected spans, want at least 1", answer, r.spans)
		}
	})
}

func TestCutTextReturnsValidPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[aä€😀]{250,300}`)).Draw(t, "text")
		got := cutText(text)
		if len(got) > maxTextBytes || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
			t.Fatalf("cutText(%q) = %q, want a valid prefix of at most %d bytes", text, got, maxTextBytes)
		}
		if len(text)-len(got) > 0 && len(got) <= maxTextBytes-utf8.UTFMax {
			t.Fatalf("cutText cut %d bytes to %d, want more than %d", len(text), len(got), maxTextBytes-utf8.UTFMax)
		}
	})
}
