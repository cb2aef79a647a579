// Package meaning finds lessons close in meaning to a user's words, by a model's embeddings (match.embeddings). The
// words are embedded after the exchange was redacted and accepted for storage. A match is used from the next turn on.
//
// The contract: a request never waits for an embedding. After a full queue, a failure or an evicted match, the session
// gets no lesson by meaning.
//
// The hazard: cosines from different models have different scales. Each lesson therefore has a separate threshold: a
// cosine that at most a share of match.like_rate of the captured sentences reaches, plus a margin. Without enough
// captured sessions nothing matches.
package meaning
