package trace

import (
	"context"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"
)

// maxTextBytes is the maximum size of a client's or upstream's text in a span.
const maxTextBytes = 256

// Span is a turn's span.
type Span struct {
	span      api.Span
	hasParent bool // the client's headers name a parent span
}

// TraceID returns the trace id in hexadecimal digits.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Forward replaces the client's span with this span in the headers for the upstream. Without a client's span, nothing
// changes.
func (s *Span) Forward(ctx context.Context, h http.Header) {
	if s == nil || !s.hasParent {
		return
	}
	propagation.TraceContext{}.Inject(api.ContextWithSpan(ctx, s.span), propagation.HeaderCarrier(h))
}

// Facts are the attributes in a turn's span. Zero values are omitted, except for lists of lessons. Token counts are
// omitted if they are -1 (unknown).
type Facts struct {
	Request      Request
	Reply        Reply
	Conversation *Conversation // nil without a session, or after an opt-out
	Skip         string        // why nothing was inserted
}

// Request describes the request to the upstream.
type Request struct {
	Provider string // company behind the API: openai or anthropic
	API      string // chat, responses or messages
	Server   string // upstream host
	Port     int
	Model    string // model in the request
}

// Reply describes the upstream's reply.
type Reply struct {
	Status                int
	Failure               string  // error.type; "" without an error
	FirstMS               float64 // milliseconds until the reply headers
	Model, ID, Finish     string  // Finish is the finish reason
	Input, Cached, Output int     // tokens; -1 means unknown
	Written               int     // tokens written to the prompt cache; 0 means none or unknown
}

// Conversation holds the facts about the session.
type Conversation struct {
	RequestID string // Precept-Request-Id
	Session   string // session name hash
	Agent     string
	Turn      int // the turn's number in the session
	Injected  []string
	Withheld  []string
	Loops     int
}

// End ends the span.
func (s *Span) End(at time.Time, f *Facts) {
	if s == nil {
		return
	}
	if model := cutText(f.Request.Model); model != "" {
		s.span.SetName("chat " + model)
	}
	s.span.SetAttributes(f.attributes()...)
	if f.Reply.Failure != "" {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End(api.WithTimestamp(at))
}

// attributes returns the span's attributes, with names from the OpenTelemetry conventions or with the prefix
// "precept.".
func (f *Facts) attributes() []attribute.KeyValue {
	a := &attributeList{make([]attribute.KeyValue, 0, 24)}
	a.text("gen_ai.operation.name", "chat")
	a.text("gen_ai.provider.name", f.Request.Provider)
	a.text("gen_ai.request.model", f.Request.Model)
	a.text("gen_ai.response.model", f.Reply.Model)
	a.text("gen_ai.response.id", f.Reply.ID)
	if f.Reply.Finish != "" {
		a.texts("gen_ai.response.finish_reasons", []string{f.Reply.Finish})
	}
	a.tokens("gen_ai.usage.input_tokens", f.Reply.Input)
	a.tokens("gen_ai.usage.cache_read.input_tokens", f.Reply.Cached)
	if f.Reply.Written > 0 {
		a.tokens("gen_ai.usage.cache_creation.input_tokens", f.Reply.Written)
	}
	a.tokens("gen_ai.usage.output_tokens", f.Reply.Output)
	a.text("server.address", f.Request.Server)
	a.number("server.port", f.Request.Port)
	a.number("http.response.status_code", f.Reply.Status)
	a.text("error.type", f.Reply.Failure)
	a.text("precept.api", f.Request.API)
	if f.Reply.FirstMS > 0 {
		a.all = append(a.all, attribute.Float64("precept.first_byte_ms", f.Reply.FirstMS))
	}
	a.text("precept.skip", f.Skip)
	c := f.Conversation
	if c == nil {
		return a.all
	}
	a.text("gen_ai.conversation.id", c.Session)
	a.text("gen_ai.agent.name", c.Agent)
	a.text("precept.request_id", c.RequestID)
	a.number("precept.turn", c.Turn)
	a.texts("precept.lessons.injected", c.Injected)
	a.texts("precept.lessons.withheld", c.Withheld)
	a.number("precept.loops", c.Loops)
	return a.all
}

type attributeList struct{ all []attribute.KeyValue }

func (l *attributeList) text(key, v string) {
	if v = cutText(v); v != "" {
		l.all = append(l.all, attribute.String(key, v))
	}
}

func (l *attributeList) texts(key string, v []string) {
	out := make([]string, len(v))
	for i := range v {
		out[i] = cutText(v[i])
	}
	l.all = append(l.all, attribute.StringSlice(key, out))
}

func (l *attributeList) number(key string, n int) {
	if n != 0 {
		l.all = append(l.all, attribute.Int(key, n))
	}
}

func (l *attributeList) tokens(key string, n int) {
	if n >= 0 {
		l.all = append(l.all, attribute.Int(key, n))
	}
}

// cutText cuts a text at maxTextBytes, between two characters. It quotes invalid UTF-8, because encoding a batch would
// fail.
func cutText(s string) string {
	if !utf8.ValidString(s) {
		s = strconv.QuoteToASCII(s)
	}
	if len(s) <= maxTextBytes {
		return s
	}
	n := maxTextBytes
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
