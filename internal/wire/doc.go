// Package wire finds the messages, tool calls and other parts in request and response bodies of three APIs (dialects):
// chat completions, responses and messages.
//
// Contract: a body is never decoded as a whole and never encoded again. A change inserts text at an offset or leaves
// out a byte range; all other bytes stay unchanged. For a body that wire does not understand, Parse returns an
// *Uninspected error, and the caller forwards the body unchanged.
//
// scan.go and parser.go prove that a body is JSON, and record where each item in the message list is. memory.go scans
// only the new part of a growing conversation. agents.go and text_*.go read tool calls and results that agents write as
// prose. reader.go assembles a reply.
//
// Hazards: a Request refers to the body's bytes, and is valid only while the bytes are unchanged. Only one goroutine at
// a time may use a Request (it decodes items lazily) or a ReplyReader.
package wire
