// Package writ parses the /lesson commands in an assistant's reply, and formats the answers. The callers decide on
// permissions and storage.
//
// The hazard: prose, quotations and program text about a command are not commands. A command therefore starts a line;
// fenced, quoted or indented code is ignored.
package writ
