// Package request finds out what kinds of requests a user makes: "ship it to the main branch" is a request for a
// commit. The table kinds.tsv contains the kinds and wordings, each wording with an example.
//
// The contract: a kind is recognized by the words in one sentence. Most wordings match only at the start of a clause,
// after a courtesy such as "please". "The commit broke the login" is therefore not a request.
package request
