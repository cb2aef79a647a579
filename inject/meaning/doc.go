// Package meaning uses a model's embeddings (match.embeddings) to find lessons that are close in meaning to a user's
// words. The words are embedded after the exchange was redacted and accepted for storage. A match is used from the next
// turn on.
//
// The contract: a request never waits for an embedding. If the queue is full, if the embedding fails, or if a match was
// evicted, the session gets no lesson by meaning.
//
// The hazard: cosines from different models have different scales. Each lesson therefore has a separate threshold. It
// is a cosine that at most the share match.like_rate of the captured sentences reaches, plus a margin. Without enough
// captured sessions nothing matches.
package meaning
