// Package rules reads the rules files that agents put into their requests: CLAUDE.md, AGENTS.md,
// GEMINI.md, .cursorrules and similar. Find finds the files in a text by the markers of the agents,
// Split cuts a file into sections, and Locate finds a section in a text again.
//
// The contract: all functions are pure. A section is identified by
// the hash of its normalised text, so a section keeps its identity under another line ending, trailing
// blanks and another client. An edited section is another section.
//
// The hazard: a marker is text, and a user can write the same text. Pass only texts that an agent sends
// before the first answer: the system prompt and the leading messages. Locate therefore reports every
// place, and a caller must cut only a section with exactly one place.
package rules
