package detect

import (
	"strings"
)

// Bounds of a signature. All lines of a result within these bounds are part of its signature, because any line may name
// the error.
const (
	maxSignature      = 1024 // bytes
	maxSignatureLines = 12
	maxSignatureLine  = 300 // bytes per line
)

// Signature returns the error signature of a failed tool result, against which lessons are matched. The signature
// consists of the lines of a short result or of the headline of a long result, without colours, stack frames and the
// frame of the harness. It has at most maxSignature bytes.
func Signature(text string) string {
	all, picked := wording().headline(text)
	if len(all) <= maxSignatureLines && totalBytes(all) <= maxSignature {
		picked = all
	}
	return joinLines(dropRepeats(picked))
}

// Headline returns the few lines of a failed tool result that describe the failure.
func Headline(text string) string {
	_, picked := wording().headline(text)
	return joinLines(dropRepeats(picked))
}

// headline returns two lists of lines of a failed result: all lines except stack frames, and those of them that
// describe the failure (picked).
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
		if cause { // gradle writes the cause below "* What went wrong:"
			picked = append(picked, t)
			continue
		}
		_, w := p.gradeLine(t)
		_, isStatement := p.errorMessageRule(t)
		switch {
		case t == "* What went wrong:":
			cause = true
			continue
		case strings.HasPrefix(t, "Traceback (most recent call last)"):
			trace = true
			continue
		}
		if trace && w == noEvidence && !isStatement {
			w = weakEvidence // the line after the stack names the exception
		}
		trace = false
		if w != noEvidence || isStatement || strings.HasPrefix(t, "E   ") {
			picked = append(picked, t)
		}
	}
	if len(picked) == 0 || len(picked) == 1 && strings.HasPrefix(picked[0], "exit status ") {
		// An "exit status" line does not describe the cause.
		picked = firstAndLast(all)
	}
	return all, picked
}

func totalBytes(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l) + 1
	}
	return n
}

// signatureText returns the text of a failed result without its frame and its envelope (frame.go, envelope.go).
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

// failureTexts returns the texts of those fields of an envelope that describe a failure.
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

// stringsOf returns the texts in the value of a field that describes a failure. If a string contains JSON, the JSON is
// searched.
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

// dropRepeats returns the lines without repeated lines. If more than maxSignatureLines lines remain, only the first
// ones and the last two are returned.
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

// joinLines joins lines with line feeds, to at most maxSignature bytes. Each line is cut to maxSignatureLine bytes.
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
