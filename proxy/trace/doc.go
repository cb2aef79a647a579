// Package trace sends a span of each turn to an OpenTelemetry collector by OTLP over HTTP. The spans follow the
// semantic conventions for generative AI.
//
// No request waits for the collector. A finished span is added to a bounded queue, which Run sends in the background.
// If the queue is full, the span is dropped and counted. A span that the collector rejects is counted as well. A span
// contains names, numbers and hashes, but no text of a conversation, and not the name of a session.
//
// The methods of a nil Tracer and of a nil Span do nothing. A nil Tracer means that tracing is off, and a nil Span that
// the turn is not sampled.
//
// Hazard: a Tracer without Run drops every span.
package trace
