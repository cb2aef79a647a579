// Package trace sends a span of each turn to an OpenTelemetry collector: OTLP over HTTP, after the
// semantic conventions for generative AI.
//
// No request waits for it. What ends is put into a bounded queue, which is sent in the background;
// a span that finds the queue full is dropped and counted, and so is one that the collector did not
// take. A span holds names, numbers and hashes: never a word of a conversation, never a session's
// name.
//
// A nil Tracer is one that is off, and a nil Span one that is not sampled: their methods do
// nothing.
//
// Hazard: the queue is sent by Run. A Tracer that nobody runs drops everything.
package trace
