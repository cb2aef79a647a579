package lesson

import (
	"fmt"
	"strings"
)

// Code is an AIP-11 error code.
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

// Fault is one thing wrong with a lesson, with a sentence that says what to do about it.
type Fault struct {
	Code    Code   `json:"code"`
	Field   string `json:"field,omitempty"` // path in the frontmatter, "trigger.tags[2]"; "" for the file as a whole
	Line    int    `json:"line,omitempty"`  // in the file, from 1; 0 when there is none
	Message string `json:"message"`
}

// Error tells the fault in one line.
func (f Fault) Error() string {
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

// Faults is everything wrong with one file, in the order of its fields. It is the error of Parse.
type Faults []Fault

// maxFaultsInText is how many faults an error lists.
const maxFaultsInText = 20

// Error lists the faults, a line each.
func (fs Faults) Error() string {
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

// Problem is what a load of the bank has to say about one file.
type Problem struct {
	Path   string `json:"path"`
	Slug   string `json:"slug,omitempty"`
	Faults Faults `json:"faults"`
	Kept   bool   `json:"kept"` // the previous good version of the file stays in force

	Quarantined bool `json:"quarantined,omitempty"` // the file can be read, and waits for approval

	unread string // the name of the file or folder that could not be read; "" otherwise
}

// Error tells the file and its faults.
func (p Problem) Error() string {
	tail := ""
	if p.Kept {
		tail = "\nthe previous version stays in force"
	}
	return p.Path + ": " + p.Faults.Error() + tail
}
