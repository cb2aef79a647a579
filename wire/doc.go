// Package wire knows where things stand in the bodies of three LLM APIs: chat completions,
// responses and messages.
//
// Contract: a body is located, never decoded as a whole and never encoded again. What precept
// changes is text inserted at a known offset: without that text the body is what it was. Whatever
// is not understood is an *Uninspected error, and the caller forwards the body as it came.
//
// Hazards: a Request refers to the bytes it was parsed from and is valid while those stand; it
// decodes its items lazily and caches them, so one goroutine at a time may use it. A ReplyReader
// belongs to one goroutine, too.
package wire
