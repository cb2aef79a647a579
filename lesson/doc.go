// Package lesson holds the lessons: it reads and writes LESSON.md files (AIP-11 learning/v1 and the
// gptme form), compiles a set of them into an immutable Book that tells which ones a turn fires,
// keeps a directory of them in force (Load, Watcher), renders a lesson's advice as lines that are
// safe to insert, and checks lessons before they may speak.
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
