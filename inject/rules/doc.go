// Package rules reads the rules files that agents put into their requests, such as CLAUDE.md and AGENTS.md. Find finds
// the files by the agents' markers, Split cuts a file into sections, and Locate finds a section again.
//
// The contract: Read and Update access only the Registry's file; the rest of the package accesses no files. A section
// is identified by a hash of its normalized text, so line endings and trailing blanks make no difference. An edited
// section is a new section.
//
// The hazard: a user can write the same text as a marker. Pass only texts that an agent sends before the first answer.
// A text can also contain a section twice. Locate then reports two places. A caller may cut (remove) a section only if
// it has exactly one place.
package rules
