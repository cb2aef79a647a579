// Package history finds the conversations that coding agents have stored on this machine, and converts them to a format
// for detect.ReadTranscripts: one JSON line {source, id, messages} or {source, id, input} for each conversation.
//
// The agents' own formats have no specification, so each reader was developed with files that the agent had written. A
// reader skips entries with an unknown type, because new releases add types.
package history
