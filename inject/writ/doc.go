// Package writ parses the /lesson commands in an assistant's reply, and formats the answers. The callers take care of
// permissions and storage.
//
// The hazard: agents also write about commands, in prose, quotations and program text. Therefore, a command must be at
// the start of a line, and fenced, quoted or indented code is ignored.
package writ
