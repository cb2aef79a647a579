// Package lesson reads, checks, finds and renders lessons. A file has the learning/v1 form (AIP-11), or the gptme
// agent's form. A Book is a compiled set of lessons, and a bank is the directory (or the Redis store) that holds the
// lesson files.
//
// Start with lesson.go and parse.go (a file), edit.go and render.go (edits of single lines), watch.go (a bank), book.go
// and match.go (the book), like.go (similar words), advice.go (the text for a model) and checks.go.
//
// The contract: a Book and the lessons in it never change; a reload replaces the book. Format returns the original
// bytes (Lesson.Raw) until a field is edited, and then changes only that field's lines.
//
// The hazard: a lesson's author may be hostile. Title, Advice and Body are raw text; only the results of Headline and
// Lines are safe in a request. Success counts in a file are only the author's claims, so they are ignored.
package lesson
