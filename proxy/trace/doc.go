// Package trace sends a span for each turn to an OpenTelemetry collector by OTLP over HTTP, with the semantic
// conventions for generative AI.
//
// No request waits for the collector: Run sends spans from a bounded queue, and dropped and rejected spans are counted.
// A span contains names, numbers and hashes, but no conversation text, and not the session name.
//
// Methods on a nil Tracer (tracing is off) and a nil Span (the turn is not sampled) do nothing.
//
// Hazard: a Tracer without Run drops every span.
package trace
