// Package history finds the conversations that coding agents store on this machine, and converts them to a format of
// detect.ReadTranscripts. The format has one JSON line {source, id, messages} or {source, id, input} for each
// conversation.
//
// The agents' own formats have no specification. Each reader in this package was developed with files that the agent
// wrote. A reader skips entries of an unknown type, because new releases of an agent add types.
package history
