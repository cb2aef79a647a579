package lesson

import (
	"fmt"
	"strings"
)

// Code is an error code from AIP-11, the file format's specification.
type Code string

// The codes.
const (
	CodeInvalid    Code = "lesson_invalid"
	CodeCollision  Code = "slug_collision"
	CodeEvidence   Code = "evidence_unresolvable"
	CodeSupersedes Code = "supersedes_missing"
	CodeConfidence Code = "confidence_out_of_range"
	CodeOverbroad  Code = "trigger_overbroad"
	CodeExpired    Code = "expired"
	CodeInternal   Code = "internal"
)

// ValidationError is one fault in a lesson file. The message names the remedy.
type ValidationError struct {
	Code    Code   `json:"code"`
	Field   string `json:"field,omitempty"` // path in the frontmatter, such as "trigger.tags[2]"; "" for the whole file
	Line    int    `json:"line,omitempty"`  // line in the file, from 1; 0 if unknown
	Message string `json:"message"`
}

// Error returns the fault as one line.
func (f ValidationError) Error() string {
	var b strings.Builder
	b.WriteString(string(f.Code))
	if f.Field != "" {
		b.WriteString(": " + f.Field)
	}
	if f.Line > 0 {
		fmt.Fprintf(&b, " (line %d)", f.Line)
	}
	return b.String() + ": " + f.Message
}

// ValidationErrors holds one file's faults, in field order. Parse returns this type.
type ValidationErrors []ValidationError

const maxFaultsInText = 20

// Error lists the faults, one per line.
func (fs ValidationErrors) Error() string {
	lines := make([]string, 0, len(fs))
	for i, f := range fs {
		if i == maxFaultsInText {
			lines = append(lines, fmt.Sprintf("and %d more", len(fs)-i))
			break
		}
		lines = append(lines, f.Error())
	}
	return strings.Join(lines, "\n")
}

// Problem describes a file in a bank that is unusable as a whole or in part.
type Problem struct {
	Path           string           `json:"path"`
	Slug           string           `json:"slug,omitempty"`
	Errors         ValidationErrors `json:"faults"`
	PreviousActive bool             `json:"kept"` // the last valid version is still active

	Quarantined bool `json:"quarantined,omitempty"` // the lesson is valid, but waits for an operator's approval

	// StorageUnreadable means that the bank cannot be read. Path then names a directory or Redis.
	StorageUnreadable bool `json:"-"`

	unreadableName string // file or folder; empty for other problems
}

// Lines returns one line for each fault, starting with the path.
func (p Problem) Lines() (lines []string) {
	for line := range strings.SplitSeq(p.Errors.Error(), "\n") {
		lines = append(lines, p.Path+": "+line)
	}
	if p.PreviousActive {
		lines = append(lines, p.Path+": the previous version stays in effect")
	}
	return lines
}

// Error returns the file's path and the faults.
func (p Problem) Error() string {
	tail := ""
	if p.PreviousActive {
		tail = "\nthe previous version stays in effect"
	}
	return p.Path + ": " + p.Errors.Error() + tail
}
