// Package meaning finds lessons whose meaning is close to the words of a user, by the embeddings of a model
// (match.embeddings). The lessons are embedded when the book changes. The words of an exchange are embedded after the
// exchange was redacted and accepted for storage. A match is used from the session's next turn on.
//
// The contract: a request never waits for an embedding. Offer and Matches do not block. After a full queue, a failure
// or an evicted match, the session gets no lesson by meaning.
//
// The hazard: cosines of different models have different scales. The threshold of a lesson is
// therefore the cosine that at most the share match.like_rate of captured sentences reaches, plus a
// margin; without enough captured sessions nothing matches.
package meaning
