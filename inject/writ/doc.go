// Package writ reads the /lesson commands that an assistant writes into a reply, and words the
// answers to them.
//
// It is text only: who may write what, and where it is kept, is decided above.
//
// The hazard: prose, quotations and program text about the command are no command. So one stands at
// the beginning of a line of its own, and what is fenced, quoted or indented as code is left alone.
package writ
