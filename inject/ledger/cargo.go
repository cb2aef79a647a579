package ledger

import (
	"cmp"
	"regexp"
	"strings"
)

// Patterns for lines from rustc, clippy and cargo test.
//
//nolint:gochecknoglobals // immutable
var (
	rustHead     = regexp.MustCompile(`^error(?:\[(E\d+)\])?: (.+)$`)
	rustTest     = regexp.MustCompile(`^---- (.+) stdout ----$`)
	rustPanic    = regexp.MustCompile(`panicked at ([^\s':]+\.rs):\d+:\d+:?$`)
	rustOldPanic = regexp.MustCompile(`panicked at '(.*)', ([^\s':]+\.rs):\d+:\d+$`) // before Rust 1.73
	clippyRule   = regexp.MustCompile(`clippy::([\w-]+)|rust-clippy/[^#]*#(\w+)`)
)

func (r *failureReader) readCargo() {
	for i, text := range r.lines {
		if m := rustTest.FindStringSubmatch(text); m != nil {
			r.readCargoTest(i, m[1])
			continue
		}
		m := rustHead.FindStringSubmatch(text)
		if m == nil || i+1 >= len(r.lines) {
			continue
		}
		at := arrowLocation.FindStringSubmatch(r.lines[i+1])
		if at == nil {
			continue
		}
		rule := ""
		for _, below := range r.block(i + 1) {
			if c := clippyRule.FindStringSubmatch(below); c != nil && rule == "" {
				rule = strings.ReplaceAll(c[1]+c[2], "-", "_")
			}
		}
		if rule != "" {
			r.add(i, lintFailure("cargo clippy", at[1], "clippy::"+rule, m[2]))
			continue
		}
		r.add(i, rustFailure(at[1], m[1], m[2]))
	}
}

func rustFailure(file, code, message string) Failure {
	return Failure{Tool: "cargo check", Type: TypeAnalysis, File: file, Subject: code, Error: withSubject(code, message)}
}

// readCargoTest reads a test's output. Line i is the header.
func (r *failureReader) readCargoTest(i int, name string) {
	file, message := "", ""
	for n, text := range r.lines[i+1:] {
		if rustTest.MatchString(text) || strings.HasPrefix(text, "failures:") {
			break
		}
		if m := rustOldPanic.FindStringSubmatch(text); m != nil {
			file, message = m[2], m[1]
			break
		}
		if m := rustPanic.FindStringSubmatch(text); m != nil {
			file = m[1]
			var messageLines []string
			for _, below := range r.block(i + n + 2) {
				if strings.HasPrefix(below, "note: ") || strings.HasPrefix(below, "stack backtrace:") {
					break
				}
				messageLines = append(messageLines, below)
			}
			message = strings.Join(messageLines, " ")
			break
		}
	}
	r.add(i, testFailure("cargo test", file, name, cmp.Or(message, noMessage)))
}

// rustLineFailure reads an error on a line that has the position before the message.
func rustLineFailure(file, code, message string) Failure {
	f := rustFailure(file, code, message)
	if code == "" && strings.Contains(message, "clippy") {
		f.Tool, f.Type = "cargo clippy", TypeLint
	}
	return f
}
