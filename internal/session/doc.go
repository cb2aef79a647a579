// Package session identifies the session of a request and holds the record of a session.
//
//   - Identify reads names from headers, path and body. Identify is pure.
//   - Threader finds the conversation of a request without a name: by ids and texts that agents send
//     back, or by a single message that grows.
//   - Record is the memory of one session: matches, picks, coins, and every inserted block with its
//     anchor. Encode, Decode and Row read and write the record as JSON.
//   - Quotes recognise side requests that show a conversation in one text.
//
// A wrong session mixes two experiments and breaks the provider's prompt cache. An uncertain request
// (few-shot examples, call ids that repeat from run to run, identical beginnings) gets a new session.
package session
