// Package request names the kinds of a user's requests to an agent: "ship it to the main branch" and
// "commit this" are requests for a commit. The kinds and their wordings are the table kinds.tsv, each
// wording with an example.
//
// The contract: a kind is found in one sentence, by the words of the sentence only. Most wordings begin
// with a clause ("commit ..." after a courtesy), so that a sentence about a subject ("the commit broke
// the login") is no request.
package request
