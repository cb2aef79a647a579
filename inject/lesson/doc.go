// Package lesson reads and writes LESSON.md files. A file has the form learning/v1 of AIP-11, or the form
// of the agent gptme. The package compiles lessons into an immutable Book that finds the lessons for a turn,
// and watches a directory of lessons (Load, Watcher). It renders the advice of a lesson as lines that are
// safe to insert, and checks lessons before their activation.
//
// A file is parsed in parse.go: the frontmatter by yaml.go, its fields by aip11.go or gptme.go with
// the rules of rules.go, and the markdown by sections.go. format.go writes a file, edit.go and
// render.go change edited lines only. lesson.go and action.go define a lesson and its actions.
// dir.go, texts.go and watch.go read a bank. book.go compiles the book: phrase.go and fold.go
// define phrases, automaton.go finds them in one pass, match.go evaluates the findings, and
// explain.go explains them. like.go compares the lessons with windows of a text (like_text.go,
// like_words.go) and takes thresholds from captured sessions (like_traffic.go). advice.go renders
// the text for a model, with sanitize.go and roles.go. checks.go checks a lesson, with injection.go,
// orders.go and keywords.go.
//
// The contract: a Book and its lessons never change. A reload replaces the whole book. Parsing keeps the bytes of
// the file in Lesson.Raw. Format returns these bytes until a field is edited, and then changes only the lines of
// the field.
//
// The hazard: lessons reach a model, and their author may be hostile. Title, Advice and Body are raw text from the
// file; only the results of Headline and Lines may enter a request. The counts of success in a file are claims of
// the author and are ignored. The measured counts are in the store.
package lesson
