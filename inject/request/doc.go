// Package request finds the kinds of a user's requests to an agent. For example, "ship it to the main branch" and
// "commit this" are requests for a commit. The table kinds.tsv contains the kinds and their wordings, each wording with
// an example.
//
// The contract: a kind is found in one sentence, by the words of this sentence only. Most wordings match only at the
// start of a clause, after a courtesy such as "please". A sentence about a subject, such as "the commit broke the
// login", is therefore not a request.
package request
