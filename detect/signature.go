package detect

import (
	"strings"
)

// If a result is within these bounds, its signature has all lines, because any line may name the error.
const (
	maxSignature      = 1024 // bytes
	maxSignatureLines = 12
	maxSignatureLine  = 300
)

// Signature returns a failed result's error signature, against which lessons are matched. For a short result, this is
// all lines without colours, stack frames and the harness's frame (frame.go). For a long result, it is the headline.
func Signature(text string) string {
	all, failureLines := compiledPhrases().headline(text)
	if len(all) <= maxSignatureLines && totalBytes(all) <= maxSignature {
		failureLines = all
	}
	return joinLines(dropRepeats(failureLines))
}

// Headline returns the few lines in a failed result that describe the failure.
func Headline(text string) string {
	_, failureLines := compiledPhrases().headline(text)
	return joinLines(dropRepeats(failureLines))
}

// headline returns a failed result's lines without stack frames (all), and the lines among these that describe the
// failure (failureLines).
func (p *phrases) headline(text string) (all, failureLines []string) {
	text = p.signatureText(withoutProgressMeter(cutMiddle(strings.TrimSpace(text))))
	inTrace, inCause := false, false
	for line := range strings.SplitSeq(text, "\n") {
		t := plainLine(line)
		if t == "" {
			inCause = false
			continue
		}
		if inTrace && line != strings.TrimLeft(line, " \t") {
			continue // a stack frame names a place in the code, not a cause
		}
		all = append(all, t)
		if inCause { // gradle writes the cause below "* What went wrong:"
			failureLines = append(failureLines, t)
			continue
		}
		_, w := p.gradeLine(t)
		_, isMessage := p.errorMessageRule(t)
		switch {
		case t == "* What went wrong:":
			inCause = true
			continue
		case strings.HasPrefix(t, "Traceback (most recent call last)"):
			inTrace = true
			continue
		}
		if inTrace && w == noEvidence && !isMessage {
			w = weakEvidence // the line after the stack names the exception
		}
		inTrace = false
		if w != noEvidence || isMessage || strings.HasPrefix(t, "E   ") {
			failureLines = append(failureLines, t)
		}
	}
	if len(failureLines) == 0 || len(failureLines) == 1 && strings.HasPrefix(failureLines[0], "exit status ") {
		// "exit status" does not describe the cause.
		failureLines = firstAndLast(all)
	}
	return all, failureLines
}

func totalBytes(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l) + 1
	}
	return n
}

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

func (p *phrases) failureTexts(v lenientValue, depth int) []string {
	var out []string
	if depth > 3 {
		return nil
	}
	for i, k := range v.keys {
		val := v.vals[i]
		if p.isKey("failure-text", k) {
			out = append(out, p.collectStrings(val, depth)...)
		}
	}
	if v.kind == arrayValue {
		for _, e := range v.vals {
			out = append(out, p.failureTexts(e, depth+1)...)
		}
	}
	return out
}

// collectStrings returns the strings in a value. It also searches strings that contain JSON.
func (p *phrases) collectStrings(v lenientValue, depth int) []string {
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

// dropRepeats removes repeated lines. If there are more than maxSignatureLines lines, it keeps the first lines and the
// last two.
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

// joinLines joins lines to at most maxSignature bytes, each cut to maxSignatureLine bytes.
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
