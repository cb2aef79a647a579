// Package trace sends a span for each turn to an OpenTelemetry collector by OTLP over HTTP, in the semantic conventions
// for generative AI.
//
// No request waits for the collector: Run sends a bounded queue, and dropped and rejected spans are counted. A span
// contains names, numbers and hashes, but no conversation text, and not the session name.
//
// A nil Tracer means that tracing is off, and a nil Span that the turn is not sampled. Methods on nil do nothing.
//
// Hazard: a Tracer without Run drops every span.
package trace
