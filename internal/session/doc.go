// Package session identifies the session of a request and holds the record of a session.
//
//   - Identify reads names from headers, path and body.
//   - Threader finds the conversation of a request without a name, by ids and texts that agents send
//     back (echoes).
//   - Record is the memory of one session: matches, chosen lessons (picks), random decisions (coins), and inserted
//     blocks with anchors.
//   - Quotes recognise side requests, which show a conversation in one text.
//
// A request in the wrong session mixes two experiments and breaks the provider's prompt cache. So a request that fits
// several sessions (few-shot examples, repeated call ids, identical beginnings) gets a new session.
package session
