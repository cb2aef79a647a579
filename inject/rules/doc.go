// Package rules reads the rules files that agents put into their requests: CLAUDE.md, AGENTS.md,
// GEMINI.md, .cursorrules and similar. Find finds the files in a text by the markers of the agents,
// Split cuts a file into sections, and Locate finds a section in a text again.
//
// The contract: only Read and Update access files; they read and write the file of a Registry. A section is identified
// by the hash of its normalized text, so that line endings, trailing blanks and the agent make no difference. An edited
// section is a new section.
//
// The hazard: a marker is text, and a user can write the same text. Pass only texts that an agent sends
// before the first answer: the system prompt and the leading messages. A text may also contain a section
// twice. Locate reports at most two places, and a caller must cut only a section with exactly one place.
package rules
