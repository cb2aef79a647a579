// Package writ parses the /lesson commands in an assistant's reply, and formats the answers. The callers decide on
// permissions and storage.
//
// The hazard: agents also write about commands, in prose, quotations and program text. A command must therefore start a
// line; fenced, quoted or indented code is ignored.
package writ
