package proxy

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"precept/bandit/feedback"
	"precept/inject"
	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/hooks"
	"precept/store"
)

// Metrics are the data listener's metrics. Labels contain no session, no tenant and no client text.
type Metrics struct {
	requests           *prometheus.CounterVec
	phases             *prometheus.HistogramVec
	lessons            lessonCounters
	sessions           sessionCounters
	upstream           upstreamMetrics
	loops              prometheus.Counter
	feedback           *prometheus.CounterVec
	failOpen           *prometheus.CounterVec
	uninspected        *prometheus.CounterVec
	unreadReplies      *prometheus.CounterVec
	rejectedInjections prometheus.Counter
	writs              *prometheus.CounterVec
	hooks              *prometheus.CounterVec
}

type lessonCounters struct{ matched, picked, injected, withheld prometheus.Counter }

type sessionCounters struct{ newSessions, excludedSessions, sideRequests *prometheus.CounterVec }

type upstreamMetrics struct {
	tokens   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	usage    *prometheus.HistogramVec
}

// NewMetrics registers the data listener's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		requests: vec("precept_requests_total", "Requests by API (dialect) and status class.", "dialect", "code"),
		phases:   hist("precept_overhead_seconds", "Time that precept adds to a request, by phase.", prometheus.ExponentialBuckets(1e-6, 4, 10), "phase"),
		lessons: lessonCounters{
			matched:  counter("precept_lessons_matched_total", "Lessons that matched, counted once per session."),
			picked:   counter("precept_lessons_picked_total", "Lessons that the chooser selected (picked) for a session."),
			injected: counter("precept_lessons_injected_total", "Picked lessons that were injected."),
			withheld: counter("precept_lessons_withheld_total", "Picked lessons that were withheld at random."),
		},
		loops:              counter("precept_loops_total", "Loops found in tool results."),
		feedback:           vec("precept_feedback_total", "Feedback entries, by source, type and status (joined, parked, ignored, full or refused).", "source", "type", "status"),
		sessions:           sessionCounters{newSessions: vec("precept_sessions_total", "New sessions, by the method that identified the session.", "method"), excludedSessions: vec("precept_sessions_excluded_total", "Sessions outside the experiment, by reason. The reasons busy and tenant count requests.", "reason"), sideRequests: vec("precept_side_requests_total", "Requests outside the agent's conversation, for example for a title or a summary.", "reason")},
		failOpen:           vec("precept_fail_open_total", "Failed learning steps. The requests continued without the step.", "step"),
		uninspected:        vec("precept_uninspected_total", "Requests to a supported API that were forwarded without inspection.", "reason"),
		unreadReplies:      vec("precept_unread_replies_total", "Compressed replies that precept forwarded but could not read.", "reason"),
		rejectedInjections: counter("precept_injection_rejected_total", "Requests that the upstream rejected with precept's changes and accepted without them."),
		writs:              vec("precept_writs_total", "Agents' /lesson commands, by result.", "command", "result"),
		hooks:              vec("precept_hooks_total", "Webhook deliveries, by service and result.", "service", "result"),
		upstream: upstreamMetrics{tokens: vec("precept_upstream_tokens_total", "Tokens that the upstream reported, by type; the type input includes cached and cache_write.", "type"), duration: hist("gen_ai_client_operation_duration_seconds", "Duration of model calls, from the agent's request to the end of the reply.",
			[]float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
			"gen_ai_operation_name", "gen_ai_system"), usage: hist("gen_ai_client_token_usage", "Tokens per model call.",
			[]float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864},
			"gen_ai_operation_name", "gen_ai_system", "gen_ai_token_type")},
	}
	m.createSeries()
	return m
}

// createSeries creates the series that alerts use, because Prometheus's increase() misses the first event in a new
// series.
func (m *Metrics) createSeries() {
	for _, reason := range label.UninspectedReasons() {
		m.uninspected.WithLabelValues(string(reason))
	}
	for _, reason := range label.UnreadReasons() {
		m.unreadReplies.WithLabelValues(string(reason))
	}
	for _, reason := range label.ExclusionReasons() {
		m.sessions.excludedSessions.WithLabelValues(string(reason))
	}
	for _, reason := range label.SideReasons() {
		m.sessions.sideRequests.WithLabelValues(string(reason))
	}
	for _, step := range label.Steps() {
		m.failOpen.WithLabelValues(string(step))
	}
	for _, method := range [...]session.Method{
		session.ByHeader, session.ByPath, session.ByAgent, session.ByBody, session.ByEcho, session.ByNew, session.ByRun,
	} {
		m.sessions.newSessions.WithLabelValues(string(method))
	}
	for _, source := range [...]string{feedback.SourceUser, feedback.SourceSystem} {
		for _, kind := range [...]string{feedback.TypeApproval, feedback.TypeRejection, feedback.TypeCorrection, feedback.TypeScore} {
			m.feedback.WithLabelValues(source, kind, string(store.Joined))
		}
	}
	for _, service := range [...]hooks.Service{hooks.GitHub, hooks.GitLab} {
		for _, result := range label.HookResults() {
			m.hooks.WithLabelValues(string(service), string(result))
		}
	}
	for _, phase := range [...]string{"read", "decide", "splice"} {
		m.phases.WithLabelValues(phase)
	}
	for _, kind := range [...]string{"input", "output", "cached", "cache_write"} {
		m.upstream.tokens.WithLabelValues(kind)
	}
	for _, v := range [...]string{vendor(wire.Chat), vendor(wire.Messages)} {
		m.upstream.duration.WithLabelValues("chat", v)
		m.upstream.usage.WithLabelValues("chat", v, "input")
		m.upstream.usage.WithLabelValues("chat", v, "output")
	}
	for _, code := range [...]int{200, 400, 500} {
		for d := wire.NoDialect; d <= wire.Messages; d++ {
			m.requests.WithLabelValues(d.String(), statusClass(code))
		}
		m.requests.WithLabelValues(ownDialect, statusClass(code))
	}
}

// observeOperation observes a request's duration and tokens. rep is nil if precept did not read the reply.
func (m *Metrics) observeOperation(d wire.Dialect, duration time.Duration, rep *wire.Reply) {
	m.upstream.duration.WithLabelValues("chat", vendor(d)).Observe(duration.Seconds())
	if rep == nil {
		return
	}
	for kind, n := range map[string]int{"input": rep.Usage.Input, "output": rep.Usage.Output, "cached": rep.Usage.Cached, "cache_write": rep.Usage.Written} {
		if n <= 0 { // -1 means unknown
			continue
		}
		m.upstream.tokens.WithLabelValues(kind).Add(float64(n))
		if kind == "input" || kind == "output" { // OpenTelemetry has no cached tokens in this metric
			m.upstream.usage.WithLabelValues("chat", vendor(d), kind).Observe(float64(n))
		}
	}
}

func (m *Metrics) countDecision(plan *inject.Plan) {
	if plan.LimitExceeded {
		m.FailedOpen(label.StepMatch)
	}
	m.lessons.matched.Add(float64(len(plan.Matched)))
	m.lessons.picked.Add(float64(len(plan.Picks)))
	for i := range plan.Picks {
		if plan.Picks[i].Injected {
			m.lessons.injected.Inc()
		} else {
			m.lessons.withheld.Inc()
		}
	}
	m.loops.Add(float64(plan.Loops))
}

// FailedOpen counts a step that failed while the request continued.
func (m *Metrics) FailedOpen(step label.Step) { m.failOpen.WithLabelValues(string(step)).Inc() }

// observePhase observes precept's own work in the phase "read", "decide" or "splice". trace is the trace id of a
// sampled turn, stored as the observation's exemplar, or "".
func (m *Metrics) observePhase(name string, d time.Duration, trace string) {
	o := m.phases.WithLabelValues(name)
	if e, ok := o.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	o.Observe(d.Seconds())
}

// ownDialect labels requests to precept's own endpoints.
const ownDialect = "precept"

func (m *Metrics) countRequest(w *clientWriter) {
	dialect := w.dialect.String()
	if w.atEndpoint {
		dialect = ownDialect
	}
	m.requests.WithLabelValues(dialect, statusClass(w.status)).Inc()
}

// statusClass returns 2xx, 3xx, 4xx or 5xx, or none without a final status.
func statusClass(code int) string {
	if code < 200 {
		return "none"
	}
	return strconv.Itoa(min(code/100, 5)) + "xx"
}

// vendor returns the company that defines the API.
func vendor(d wire.Dialect) string {
	if d == wire.Messages {
		return "anthropic"
	}
	return "openai"
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
