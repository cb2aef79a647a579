package detect

import (
	"strings"
)

// Bounds of a signature, in bytes and in lines. A result within these bounds is its own signature, because any
// line may name the error.
const (
	maxSignature      = 1024
	maxSignatureLines = 12
	maxSignatureLine  = 300
)

// Signature returns the error signature of a failed tool result, which lessons match: the lines of a short
// result, or the headline of a long result, without colours, stack frames and the frame of the harness. A
// signature has at most maxSignature bytes.
func Signature(text string) string {
	all, picked := wording().headline(text)
	if len(all) <= maxSignatureLines && size(all) <= maxSignature {
		picked = all
	}
	return joinLines(dropRepeats(picked))
}

// Headline returns the few lines of a failed tool result that describe the failure.
func Headline(text string) string {
	_, picked := wording().headline(text)
	return joinLines(dropRepeats(picked))
}

// headline returns the lines of a failed result without stack frames (all), and the lines that describe the
// failure (picked).
func (p *phrases) headline(text string) (all, picked []string) {
	text = p.signatureText(clip(strings.TrimSpace(text)))
	trace, cause := false, false
	for line := range strings.SplitSeq(text, "\n") {
		t := plainLine(line)
		if t == "" {
			cause = false
			continue
		}
		if trace && line != strings.TrimLeft(line, " \t") {
			continue // a stack frame names a place, not a cause
		}
		all = append(all, t)
		if cause { // text of gradle below "* What went wrong:"
			picked = append(picked, t)
			continue
		}
		_, w := p.failLine(t)
		_, isStatement := p.statement(t)
		switch {
		case t == "* What went wrong:":
			cause = true
			continue
		case strings.HasPrefix(t, "Traceback (most recent call last)"):
			trace = true
			continue
		}
		if trace && w == nothing && !isStatement {
			w = weak // exception at the end of the stack, with any name
		}
		trace = false
		if w != nothing || isStatement || strings.HasPrefix(t, "E   ") {
			picked = append(picked, t)
		}
	}
	if len(picked) == 0 || len(picked) == 1 && strings.HasPrefix(picked[0], "exit status ") {
		// The line reports the end of the program, not the cause.
		picked = firstAndLast(all)
	}
	return all, picked
}

func size(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l) + 1
	}
	return n
}

// signatureText returns a result without frame and envelope (frame.go, envelope.go).
func (p *phrases) signatureText(text string) string {
	text = unwrapText(text)
	v, ok := parseLenient(text)
	if !ok {
		text = p.unframe(text).body
		v, ok = parseLenient(text)
	}
	if parts := p.failureTexts(v, 0); ok && len(parts) > 0 {
		return strings.Join(parts, "\n")
	}
	return text
}

// failureTexts returns the texts of an envelope that describe the failure.
func (p *phrases) failureTexts(v lenientValue, depth int) []string {
	var out []string
	if depth > 3 {
		return nil
	}
	for i, k := range v.keys {
		val := v.vals[i]
		if p.isKey("failure-text", k) {
			out = append(out, p.stringsOf(val, depth)...)
		}
	}
	if v.kind == arrayValue {
		for _, e := range v.vals {
			out = append(out, p.failureTexts(e, depth+1)...)
		}
	}
	return out
}

// stringsOf returns the texts of a field that describes a failure. A string that is JSON is read as
// JSON.
func (p *phrases) stringsOf(v lenientValue, depth int) []string {
	switch v.kind {
	case stringValue:
		t := strings.TrimSpace(v.text())
		if inner, ok := parseLenient(t); ok {
			if parts := p.failureTexts(inner, depth+1); len(parts) > 0 {
				return parts
			}
		}
		if t == "" {
			return nil
		}
		return []string{t}
	case objectValue, arrayValue:
		return p.failureTexts(v, depth+1)
	case noValue, numberValue, boolValue:
	}
	return nil
}

func firstAndLast(lines []string) []string {
	if len(lines) <= 6 {
		return lines
	}
	return append(lines[:2:2], lines[len(lines)-4:]...)
}

// dropRepeats removes repeated lines. Of more than maxSignatureLines lines, the first ones and the last two
// stay.
func dropRepeats(lines []string) []string {
	seen := make(map[string]bool, len(lines))
	out := lines[:0:0]
	for _, l := range lines {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	if len(out) > maxSignatureLines {
		out = append(out[:maxSignatureLines-2:maxSignatureLines-2], out[len(out)-2:]...)
	}
	return out
}

// joinLines joins lines with line feeds, up to maxSignature bytes. Each line is cut to maxSignatureLine bytes.
func joinLines(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		l = cutRunes(l, maxSignatureLine)
		if b.Len() > 0 {
			if b.Len()+1+len(l) > maxSignature {
				break
			}
			b.WriteByte('\n')
		}
		b.WriteString(l)
	}
	return b.String()
}
