// Package lesson reads, checks, finds and renders lessons. A file has the form learning/v1 of AIP-11, or the form of
// the agent gptme. A Book is a compiled set of lessons, and a bank is a directory of them.
//
// Start with lesson.go and parse.go (a file), edit.go and render.go (edits of single lines), watch.go (a bank), book.go
// and match.go (the book), like.go (similar words), advice.go (text for a model) and checks.go.
//
// The contract: a Book and its lessons never change; a reload replaces the book. Format returns the file's bytes
// (Lesson.Raw) until a field is edited, and then changes only that field's lines.
//
// The hazard: the author of a lesson may be hostile. Title, Advice and Body are raw text; only the results of Headline
// and Lines may enter a request. A file's counts of success are claims and are ignored.
package lesson
