// Package history finds the conversations that coding agents keep on this machine, and writes them
// in the form that detect.Read reads: one JSON line {source, id, messages} or {source, id, input} per
// conversation.
//
// The formats are the agents' own and have no specification; each reader was written against files
// that the agent wrote. A reader skips entries that it does not know, because a new release of an
// agent adds entries.
package history
