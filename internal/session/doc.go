// Package session says who is speaking, and holds what precept remembers of a conversation.
//
// Contract: Identify reads names out of headers, path and body and is pure. Threader finds the
// conversation of a request that carries no name, by what agents send back of what went by, or by
// the one message that goes on with an earlier one. Record is the memory of one session: what
// matched, what was picked, which coins fell, and every block that was inserted, with its anchor.
//
// Hazard: a session recognised wrongly mixes two experiments and tears the provider's prompt cache.
// Whatever is not certain (few-shot examples, call ids that repeat from run to run, identical
// starts) ends in a session of its own.
package session
