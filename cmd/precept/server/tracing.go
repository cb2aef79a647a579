package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"precept/configs"
	"precept/internal/label"
	"precept/proxy/trace"
)

// traces makes the tracer, where the configuration names a collector.
func (p *parts) traces(cfg *configs.Config) error {
	if cfg.Otel.Endpoint == "" {
		return nil
	}
	headers, err := cfg.Otel.Header()
	if err != nil {
		return err
	}
	p.tracer, err = trace.New(trace.Options{
		Endpoint: cfg.Otel.Endpoint, Headers: headers, Sample: cfg.Otel.Sample,
		Version: ReadBuild().Version,
		Failed: func(err error) {
			if p.quiet.allow(label.StepTrace) {
				p.log.Warn("traces were not delivered; requests are not affected", "error", err)
			}
		},
	})
	if err != nil {
		return err
	}
	CountSpans(p.registry, p.tracer)
	return nil
}

// CountSpans registers what became of spans.
func CountSpans(reg prometheus.Registerer, t *trace.Tracer) {
	for outcome, count := range map[string]func(*trace.Tracer) int64{"sent": (*trace.Tracer).Sent, "dropped": (*trace.Tracer).Dropped} {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "precept_spans_total", Help: "Spans of sampled turns, by what became of them.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(count(t)) }))
	}
}
