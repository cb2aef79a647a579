// Package session identifies a request's session and holds the session's record.
//
//   - Identify reads names from headers, path and body.
//   - Threader finds the conversation for a request without a name, by the ids and texts that agents send back
//     (echoes).
//   - Record is what one session remembers: matches, chosen lessons (picks), random decisions (coins), and inserted
//     blocks with anchors.
//   - Quotes recognises side requests (agent housekeeping, such as a title), which quote a conversation in one text.
//
// A request in the wrong session mixes two experiments and breaks the provider's prompt cache. Therefore a request that
// matches several sessions (few-shot examples, repeated call ids, identical beginnings) gets a new session.
package session
