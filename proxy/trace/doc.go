// Package trace sends a span of each turn to an OpenTelemetry collector: OTLP over HTTP, with the
// semantic conventions for generative AI.
//
// No request waits for the collector. A span that ends goes to a bounded queue, which Run sends in
// the background. A span that finds the queue full is dropped and counted, and so is a rejected
// span. A span holds names, numbers and hashes: never text of a conversation, never the name of a
// session.
//
// A nil Tracer is off, and a nil Span is not sampled: their methods do nothing.
//
// Hazard: a Tracer without Run drops every span.
package trace
