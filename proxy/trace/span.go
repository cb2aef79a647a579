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

// mostText bounds the texts of clients in a span: names of models and agents, finish reasons.
const mostText = 256

// Span is the span of one turn. A Span belongs to the goroutine of the turn.
type Span struct {
	span  api.Span
	child bool // the client's headers name a parent span
}

// TraceID returns the id of the trace in hex, empty for a nil span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Forward writes the span into the headers for the upstream, in place of its parent. The headers of
// a client without a trace are forwarded as they came.
func (s *Span) Forward(ctx context.Context, h http.Header) {
	if s == nil || !s.child {
		return
	}
	propagation.TraceContext{}.Inject(api.ContextWithSpan(ctx, s.span), propagation.HeaderCarrier(h))
}

// Turn holds the facts of a span. Zero values are left out, except for the lists of lessons, and
// for the numbers of tokens, where -1 means unknown.
type Turn struct {
	Provider string // owner of the API: openai, anthropic
	API      string // chat_completions, responses, messages
	Server   string // the upstream's host
	Port     int
	Model    string // as asked for
	Status   int    // of the answer
	Failure  string // error.type; "" for a turn that ended well
	FirstMS  float64

	ReplyModel, ReplyID, Finish string
	Input, Cached, Output       int // tokens

	Known     bool   // the fields below are known and may be shown
	RequestID string // Precept-Request-Id
	Session   string // a hash of the session's name
	Agent     string
	Number    int // of the turn in its session
	Injected  []string
	Withheld  []string
	Loops     int
	Skip      string // why nothing was inserted
}

// End ends the span.
func (s *Span) End(at time.Time, t *Turn) {
	if s == nil {
		return
	}
	if model := bounded(t.Model); model != "" {
		s.span.SetName("chat " + model)
	}
	s.span.SetAttributes(t.attributes()...)
	if t.Failure != "" {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End(api.WithTimestamp(at))
}

// attributes returns the attributes under the names of the conventions, or of precept where the
// conventions have no name.
func (t *Turn) attributes() []attribute.KeyValue {
	a := &list{make([]attribute.KeyValue, 0, 24)}
	a.text("gen_ai.operation.name", "chat")
	a.text("gen_ai.provider.name", t.Provider)
	a.text("gen_ai.request.model", t.Model)
	a.text("gen_ai.response.model", t.ReplyModel)
	a.text("gen_ai.response.id", t.ReplyID)
	if t.Finish != "" {
		a.texts("gen_ai.response.finish_reasons", []string{t.Finish})
	}
	a.tokens("gen_ai.usage.input_tokens", t.Input)
	a.tokens("gen_ai.usage.cache_read.input_tokens", t.Cached)
	a.tokens("gen_ai.usage.output_tokens", t.Output)
	a.text("server.address", t.Server)
	a.number("server.port", t.Port)
	a.number("http.response.status_code", t.Status)
	a.text("error.type", t.Failure)
	a.text("precept.api", t.API)
	if t.FirstMS > 0 {
		a.all = append(a.all, attribute.Float64("precept.first_byte_ms", t.FirstMS))
	}
	a.text("precept.skip", t.Skip)
	if !t.Known {
		return a.all
	}
	a.text("gen_ai.conversation.id", t.Session)
	a.text("gen_ai.agent.name", t.Agent)
	a.text("precept.request_id", t.RequestID)
	a.number("precept.turn", t.Number)
	a.texts("precept.lessons.injected", t.Injected)
	a.texts("precept.lessons.withheld", t.Withheld)
	a.number("precept.loops", t.Loops)
	return a.all
}

// list collects attributes.
type list struct{ all []attribute.KeyValue }

func (l *list) text(key, v string) {
	if v = bounded(v); v != "" {
		l.all = append(l.all, attribute.String(key, v))
	}
}

func (l *list) texts(key string, v []string) {
	out := make([]string, len(v))
	for i := range v {
		out[i] = bounded(v[i])
	}
	l.all = append(l.all, attribute.StringSlice(key, out))
}

func (l *list) number(key string, n int) {
	if n != 0 {
		l.all = append(l.all, attribute.Int(key, n))
	}
}

func (l *list) tokens(key string, n int) {
	if n >= 0 {
		l.all = append(l.all, attribute.Int(key, n))
	}
}

// bounded cuts a text between characters. A text without valid UTF-8 is quoted: an invalid protobuf
// string fails its whole batch.
func bounded(s string) string {
	if !utf8.ValidString(s) {
		s = strconv.QuoteToASCII(s)
	}
	if len(s) <= mostText {
		return s
	}
	n := mostText
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
