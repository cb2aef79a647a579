package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Lines returns a text's lines without line endings, trailing blanks, and blank lines at both ends. Several blank lines
// in a row become one.
func Lines(text string) []string {
	var lines []string
	for l := range strings.SplitSeq(text, "\n") {
		l = strings.TrimRight(l, " \t\r")
		if l == "" && (len(lines) == 0 || lines[len(lines)-1] == "") {
			continue
		}
		lines = append(lines, l)
	}
	if n := len(lines); n > 0 && lines[n-1] == "" {
		lines = lines[:n-1]
	}
	return lines
}

// Normalize joins the lines returned by Lines with line feeds.
func Normalize(text string) string { return strings.Join(Lines(text), "\n") }

// hashLength is the number of hex digits in a hash, as in lesson arms.
const hashLength = 12

// Hash returns a hash of the normalized text, used to identify a section.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(Normalize(text)))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// Tokens returns the number of tokens in text, at four bytes per token.
func Tokens(text string) int { return (len(text) + 3) / 4 }

// Span is a byte range in a text.
type Span struct{ Start, End int }

// Locate returns a section's places in text, each with the blank lines after it. It stops after two places, because
// only a unique place can be cut. lines is what Lines returns for the section. boundaries are the offsets, in ascending
// order, at which a message part begins without a line ending before it.
func Locate(text string, lines []string, boundaries ...int) []Span {
	if len(lines) == 0 {
		return nil
	}
	var out []Span
	for from := 0; from < len(text) && len(out) < 2; {
		i := strings.Index(text[from:], lines[0])
		if i < 0 {
			break
		}
		at := from + i
		from = at + 1
		if !startsLine(text, at, boundaries) {
			continue
		}
		if end, ok := matchLines(text, at, lines, boundaries); ok {
			out = append(out, Span{at, end})
		}
	}
	return out
}

// startsLine reports whether a line, or the text after a tag, starts at an offset.
func startsLine(text string, at int, boundaries []int) bool {
	return at == 0 || text[at-1] == '\n' || text[at-1] == '>' || isBoundary(boundaries, at)
}

func isBoundary(boundaries []int, at int) bool {
	_, ok := slices.BinarySearch(boundaries, at)
	return ok
}

// matchLines reports whether lines are at an offset in text, and returns the end offset.
func matchLines(text string, at int, lines []string, boundaries []int) (end int, ok bool) {
	for i, l := range lines {
		if l == "" {
			continue // already skipped by skipLineEnd
		}
		if !strings.HasPrefix(text[at:], l) {
			return 0, false
		}
		at += len(l)
		blanks := i+1 < len(lines) && lines[i+1] == ""
		last := i == len(lines)-1
		next, endings := skipLineEnd(text, at, boundaries, blanks || last)
		switch {
		case next == len(text) && endings == 0 && last:
			return next, true
		case last && endings == 0 && strings.HasPrefix(text[next:], "</"):
			return next, true
		case endings == 0, blanks && endings < 2:
			return 0, false
		}
		at = next
	}
	return at, true
}

// skipLineEnd skips trailing blanks and a line ending. If skipBlankLines is true, it also skips the blank lines after
// them. endings is the number of line endings. A boundary between two text parts counts as two line endings, because
// the client may have split the text at a blank line.
func skipLineEnd(text string, at int, boundaries []int, skipBlankLines bool) (next, endings int) {
	for next = at; ; {
		i := next
		for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r') && !(endings == 0 && isBoundary(boundaries, i)) {
			i++
		}
		switch {
		case i < len(text) && text[i] == '\n':
			next, endings = i+1, endings+1
			if !skipBlankLines {
				if isBoundary(boundaries, next) {
					endings++
				}
				return next, endings
			}
		case endings == 0 && isBoundary(boundaries, i) && i < len(text):
			next, endings = i, 2
			if !skipBlankLines {
				return next, endings
			}
		case endings == 0:
			if i == len(text) {
				next = i
			}
			return next, endings
		default:
			if i == len(text) {
				next = i
			}
			if isBoundary(boundaries, next) {
				endings++
			}
			return next, endings
		}
	}
}

// MaxHead is the maximum number of bytes in a request that are searched for sections.
const MaxHead = 256 << 10

// LocateFramed locates a section inside rules files. It returns at most two spans in each file. It skips a file without
// a known end, because the user's words may follow that file.
func LocateFramed(text string, lines []string, boundaries ...int) (places []Span) {
	for _, f := range Find(text) {
		if f.Unterminated {
			continue
		}
		var inside []int
		for _, j := range boundaries {
			if j > f.Start && j < f.End {
				inside = append(inside, j-f.Start)
			}
		}
		for _, at := range Locate(text[f.Start:f.End], lines, inside...) {
			places = append(places, Span{f.Start + at.Start, f.Start + at.End})
		}
	}
	return places
}

// LeavesEmptyPart reports whether cuts leave a part without content. Some APIs refuse such a part. boundaries holds the
// start offset of each part except the first, which starts at 0.
func LeavesEmptyPart(text string, boundaries []int, cuts []Span) bool {
	part := Span{}
	for i := range len(boundaries) + 1 {
		part.Start, part.End = part.End, len(text)
		if i < len(boundaries) {
			part.End = boundaries[i]
		}
		inside := slices.ContainsFunc(cuts, func(c Span) bool { return c.Start < part.End && c.End > part.Start })
		if inside && isCovered(text, part, cuts) {
			return true
		}
	}
	return false
}

// AddEmptiedHeadings adds a cut for each heading that the cuts from Locate leave without content.
func AddEmptiedHeadings(text string, cuts []Span) []Span {
	regions := []Span{{0, len(text)}}
	for _, f := range Find(text) {
		if slices.ContainsFunc(cuts, func(c Span) bool { return c.Start >= f.Start && c.Start < f.End }) {
			regions = append(regions, Span{f.Start, f.End})
		}
	}
	if len(regions) > 1 { // other headings belong to the agent
		regions = regions[1:]
	}
	for _, r := range regions {
		cuts = addHeadingsIn(text, r, cuts)
	}
	return cuts
}

// addHeadingsIn tests the headings in a region in reverse order, so that inner headings come before outer headings.
func addHeadingsIn(text string, r Span, cuts []Span) []Span {
	sections := headings(text[r.Start:r.End])
	for _, sec := range slices.Backward(sections) {
		s := Span{sec.Start + r.Start, sec.End + r.Start}
		body := Span{sec.BodyStart + r.Start, s.End}
		inside := slices.ContainsFunc(cuts, func(c Span) bool { return c.Start >= body.Start && c.Start < body.End })
		if !inside || !isCovered(text, body, cuts) {
			continue
		}
		for s.End < r.End && strings.IndexByte(" \t\r\n", text[s.End]) >= 0 {
			s.End++
		}
		cuts = append(cuts, s)
	}
	return cuts
}

// isCovered reports whether cuts leave only blanks in part.
func isCovered(text string, part Span, cuts []Span) bool {
	for at := part.Start; at < part.End; {
		if i := slices.IndexFunc(cuts, func(c Span) bool { return c.Start <= at && at < c.End }); i >= 0 {
			at = cuts[i].End
			continue
		}
		if strings.IndexByte(" \t\r\n", text[at]) < 0 {
			return false
		}
		at++
	}
	return true
}

// prohibitions matches prohibitions, and words for secrets, production systems and destructive commands.
var prohibitions = regexp.MustCompile(`(?i)\b(?:never|must not|mustn't|mustn’t|may not|shall not|should not|shouldn't|do not|don't|don’t|you cannot|you can't|you can’t|` +
	`not allowed|not permitted|no(?:t)? (?:access|exceptions?)|forbid(?:den|s)?|prohibit(?:ed|s)?|disallow(?:ed)?|off[- ]limits|under no circumstances|` +
	`secrets?|credentials?|passwords?|passphrases?|api[- _]?keys?|private keys?|access tokens?|confidential|pii|personal data|gdpr|hipaa|` +
	`production|prod|deletions?|deletes?|deleting|deleted|destroy(?:s|ed|ing)?|destructive|irreversible|drop (?:table|database)|truncate|wipe|purge|` +
	`force[- ]push(?:es|ed|ing)?|push --force|reset --hard|rm -rf?|` +
	`niemals|nie|verboten|darf nicht|dürfen nicht|nicht erlaubt|nunca|jamás|prohibido|jamais|interdit|ne pas|nooit|mai|vietato)\b` +
	`|禁止|绝不|不要|不得|请勿|決して|してはいけない|하지 마`)

// FindProhibition returns the first match in lower case, or "".
func FindProhibition(text string) string { return strings.ToLower(prohibitions.FindString(text)) }
