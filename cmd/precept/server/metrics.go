package server

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"precept/configs"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy/trace"
	"precept/store"
)

// RegisterStore registers the store's counters.
func RegisterStore(reg prometheus.Registerer, s *store.Store) {
	count := counterRegistrar(reg)
	t := &s.Metrics
	count(samplesMetric, samplesHelp, prometheus.Labels{"outcome": "exchange_stored"}, &t.Exchanges)
	count(samplesMetric, samplesHelp, prometheus.Labels{"outcome": "exchange_incomplete"}, &t.Incomplete)
	const dropped, droppedHelp = "precept_dropped_total", "Exchanges that were not stored, by reason."
	drops := map[label.Reason]*atomic.Int64{
		label.DroppedFull: &t.DroppedFull, label.DroppedQuota: &t.DroppedQuota, label.DroppedOptOut: &t.OptedOut,
		label.DroppedRefused: &t.DroppedBad, label.DroppedReadOnly: &t.DroppedReadOnly, label.DroppedTenant: &t.DroppedTenant,
	}
	for _, reason := range label.DropReasons() {
		count(dropped, droppedHelp, prometheus.Labels{"reason": string(reason)}, drops[reason])
	}
	late := map[label.Reason]*atomic.Int64{
		label.LateUnknown: &t.Late.Unknown, label.LateFull: &t.Late.Full, label.LateRefused: &t.Late.Bad, label.LateExpired: &t.Late.Expired,
	}
	for _, reason := range label.LateReasons() {
		count("precept_late_feedback_dropped_total", "Posted feedback that waited in the outbox and was then dropped, by reason.",
			prometheus.Labels{"reason": string(reason)}, late[reason])
	}
	count("precept_copies_cut_total", "Exchanges whose copy of the reply is incomplete because the copies of all open streams together reached limits.capture_total_bytes.",
		nil, &t.CopiesCut)
	count("precept_set_aside_total", "Sessions and exchanges skipped because a learning step panicked; `precept doctor` names them.", nil, &t.SetAside)
	count("precept_store_write_errors_total", "Failed attempts to write to the store. A failed write is retried.", nil, &t.WriteErrors)
	count("precept_feedback_left_out_total", "Feedback that was dropped because limits.feedback was reached.", nil, &t.FeedbackFull)
	const signals, signalsHelp = "precept_signals_dropped_total", "Implicit feedback, derived from the traffic, that was dropped for lack of room in the outbox, by limit."
	count(signals, signalsHelp, prometheus.Labels{"reason": string(label.DroppedQuota)}, &t.Signals.Quota)
	count(signals, signalsHelp, prometheus.Labels{"reason": string(label.DroppedTenant)}, &t.Signals.Tenant)
	count("precept_redactions_total", "Secrets and personal data removed from exchanges.", nil, &t.Redactions)
	gauge := func(name, help string, f func() float64) {
		promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	gauge("precept_recorder_pending", "Exchanges in memory that wait for the store.", func() float64 { return float64(t.Pending.Load()) })
	gauge("precept_sessions_live", "Sessions and runs in memory.", func() float64 { return float64(s.Sessions()) })
	gauge("precept_outbox_bytes", "Bytes in the outbox that wait for the store.", func() float64 { return float64(s.OutboxBytes()) })
	gauge("precept_outbox_limit_bytes", "Maximum outbox size (limits.outbox_bytes). A full outbox drops exchanges.", func() float64 { return float64(s.OutboxLimit()) })
	gauge("precept_late_feedback", "Posted feedback in the outbox that waits for the store.", func() float64 { return float64(s.LatePosts()) })
	gauge("precept_outbox_lag_seconds", "Age of the oldest exchange or posted feedback still waiting for the store, or 0 if nothing is waiting.", func() float64 { return s.Lag().Seconds() })
	gauge("precept_store_up", "1 if the last write to the store succeeded, 0 if it failed.", func() float64 {
		if s.Healthy() {
			return 1
		}
		return 0
	})
}

const samplesMetric, samplesHelp = "precept_samples_total", "Exchanges and samples, by result. A sample is counted again when later feedback changes it."

// RegisterBuild registers precept_build_info, with the version as labels.
func RegisterBuild(reg prometheus.Registerer) {
	b := ReadBuild()
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "precept_build_info", Help: "Always 1; the labels contain the binary's version.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go},
	}, func() float64 { return 1 })
}

// RegisterReload registers the metrics for the last reload, named as in Prometheus and Alertmanager.
func RegisterReload(reg prometheus.Registerer, r *reloadStatus) {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "precept_config_last_reload_successful",
		Help: "1 if the configuration from the last reload, or from startup, is in effect. 0 if the last reload was rejected, so that the previous configuration stays in effect.",
	}, func() float64 {
		if r.lastError.get() != "" {
			return 0
		}
		return 1
	})
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "precept_config_last_reload_success_timestamp_seconds",
		Help: "Unix time of the last successful reload or, before the first reload, of the start.",
	}, func() float64 { return float64(r.succeededAt.Load()) / float64(time.Second) })
}

// RegisterLearning registers a learner's counters.
func RegisterLearning(reg prometheus.Registerer, t *learn.Metrics) {
	count := counterRegistrar(reg)
	count(samplesMetric, samplesHelp, prometheus.Labels{"outcome": "sample_stored"}, &t.Samples)
	count("precept_sessions_closed_total", "Sessions that reached the age in reward.close_after, not counting runs.", nil, &t.Closed)
	count("precept_rewards_total", "Sessions that got a reward, including late rewards, not counting runs.", nil, &t.Rewarded)
	promauto.With(reg).NewGaugeFunc(
		prometheus.GaugeOpts{Name: "precept_unsampled_exchanges", Help: "Exchanges in closed sessions for which no sample is stored."},
		func() float64 { return float64(t.Unsampled.Load()) })
}

// counterRegistrar returns a function that registers a counter with the value v.
func counterRegistrar(reg prometheus.Registerer) func(name, help string, labels prometheus.Labels, v *atomic.Int64) {
	return func(name, help string, labels prometheus.Labels, v *atomic.Int64) {
		promauto.With(reg).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(v.Load()) })
	}
}

func newTracer(cfg *configs.Config, f *failures) (*trace.Tracer, error) {
	headers, err := cfg.Otel.Header()
	if err != nil {
		return nil, err
	}
	return trace.New(trace.Options{
		Endpoint: cfg.Otel.Endpoint, Headers: headers, Sample: cfg.Otel.Sample, Version: ReadBuild().Version,
		OnFailure: func(err error) {
			if f.logLimit.allow(label.StepTrace) {
				f.log.Warn("traces were not delivered; requests are not affected", "error", err)
			}
		},
	})
}

// RegisterSpans registers the counters for sent and dropped spans.
func RegisterSpans(reg prometheus.Registerer, t *trace.Tracer) {
	for outcome, count := range map[string]func(*trace.Tracer) int64{"sent": (*trace.Tracer).Sent, "dropped": (*trace.Tracer).Dropped} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "precept_spans_total", Help: "Spans for sampled turns, by result.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(count(t)) }))
	}
}

type countingCache interface {
	Hits() int64
	Misses() int64
}

// RegisterCache registers the counters for a cache's hits and misses.
func RegisterCache(reg prometheus.Registerer, name string, c countingCache) {
	for outcome, count := range map[string]func() int64{"hit": c.Hits, "miss": c.Misses} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "precept_cache_lookups_total", Help: "Look-ups in a cache, by cache and outcome.",
			ConstLabels: prometheus.Labels{"cache": name, "outcome": outcome},
		}, func() float64 { return float64(count()) }))
	}
}
