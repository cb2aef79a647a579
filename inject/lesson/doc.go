// Package lesson holds the lessons: it reads and writes LESSON.md files (AIP-11 learning/v1 and the
// gptme form), compiles a set of them into an immutable Book that tells which ones a turn fires,
// keeps a directory of them in force (Load, Watcher), renders a lesson's advice as lines that are
// safe to insert, and checks lessons before they may speak.
//
// A file becomes a lesson in parse.go: yaml.go reads its frontmatter, aip11.go or gptme.go its
// fields by the rules of rules.go, sections.go its markdown; format.go writes it again, edit.go and
// render.go touching only the lines that changed. lesson.go and action.go tell what a lesson is and
// what is done to it. dir.go, texts.go and watch.go read a bank. book.go compiles it: phrase.go and
// fold.go say what a phrase is, automaton.go finds them all in one pass, match.go weighs what was
// found, and explain.go says why. advice.go renders what a model may see, which sanitize.go and
// roles.go make harmless. checks.go judges a lesson, with injection.go, orders.go and keywords.go.
//
// Contract: a Lesson is never changed once it is in a Book, and a Book is never changed at all; a
// reload makes a new one and swaps it whole. Parsing keeps the file byte for byte (Lesson.Raw);
// Format returns those bytes until a field is edited, and then touches only the lines of that
// field.
//
// Hazard: a lesson is text that somebody else wrote and that a model will read. What stands in
// Title, Advice and Body is raw; only Headline and Lines may go into a request. And nothing an
// author declares about success is believed: the counts of a file are its own, the statistics live
// elsewhere.
package lesson
