// Package wire finds the parts of the request and response bodies of three LLM APIs: chat completions, responses and
// messages.
//
// Contract: a body is never decoded as a whole and never encoded again. A change inserts text at an offset or leaves
// out a range, and all other bytes stay unchanged. For a body that wire does not understand, Parse returns an
// *Uninspected error, and the caller forwards the body unchanged.
//
// These files read a request:
//
//	scan.go, strings.go        prove that bytes are JSON, and find the ends of values
//	parser.go, parser_list.go  scan a body, and record its list, roles and tools
//	memory.go                  scans only the new part of a growing conversation
//	request.go                 holds the result; cursor.go reads bytes that were scanned
//	item.go, part.go           decode one entry of the list; each dialect has a file
//	words.go                   separates the user's words from inserted text
//	agents.go, text_*.go       read calls and results that agents write as prose
//	hash.go, anchor.go         recognise an item in a later request
//	splice.go, system.go       insert text
//
// These files read a reply: sse.go splits a stream into events, reader.go assembles the events into items
// (reply_item.go), with one file per dialect, and reply.go holds the result.
//
// Two more files read the items of stored conversations: kept.go reads the items of one turn in the store, and
// recording.go reads a whole conversation that a person recorded in a file.
//
// Hazards: a Request refers to the bytes of its body, and is valid only as long as the bytes are unchanged. It decodes
// items lazily and caches them, so only one goroutine at a time may use it. The same holds for a ReplyReader.
package wire
