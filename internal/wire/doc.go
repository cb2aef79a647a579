// Package wire knows where things stand in the bodies of three LLM APIs: chat completions,
// responses and messages.
//
// Contract: a body is located, never decoded as a whole and never encoded again. What precept
// changes is text inserted at a known offset: without that text the body is what it was. Whatever
// is not understood is an *Uninspected error, and the caller forwards the body as it came.
//
// A request, in the order in which it is read:
//
//	scan.go, strings.go        proves that bytes are JSON, and says where values end
//	parser.go, parser_list.go  does so with a body, and notes its list, roles, tools
//	memory.go                  proves of a growing conversation what is new
//	request.go                 what was found; cursor.go reads proved bytes
//	item.go, part.go           one entry of the list, decoded; the dialects' files say how
//	words.go, lead.go          what a person said, and what was put there
//	written*.go                calls and results of agents that write them as text
//	hash.go, anchor.go         by what an item is found again in a later request
//	splice.go, system.go       where text goes, and the body with it
//
// A reply: sse.go cuts a stream into events, reader.go assembles them, with one file a dialect, and
// reply.go is what comes of it. kept.go and recording.go read lists that come back from the store
// or from people.
//
// Hazards: a Request refers to the bytes it was parsed from and is valid while those stand; it
// decodes its items lazily and caches them, so one goroutine at a time may use it. A ReplyReader
// belongs to one goroutine, too.
package wire
