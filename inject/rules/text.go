package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Lines returns the lines of a text without line endings, trailing blanks, and blank lines at the start and the end.
// Several blank lines in a row become one.
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

// Normalize returns the lines that Lines returns, joined by line feeds.
func Normalize(text string) string { return strings.Join(Lines(text), "\n") }

// hashLength is the number of hex digits of a hash, as in the arms of lessons.
const hashLength = 12

// Hash returns a hash of the normalized text, which identifies a section.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(Normalize(text)))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// Tokens estimates the number of tokens of a text, with four bytes for each token.
func Tokens(text string) int { return (len(text) + 3) / 4 }

// Span is a range of bytes in a text.
type Span struct{ Start, End int }

// Locate returns the spans of a section in a text, at most two. lines are the section's lines as Lines returns them.
// boundaries are offsets, in ascending order, at which the next part of the message begins. At a boundary, a line may
// end without a line ending. A span includes the blank lines that follow the section.
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

// startsLine reports whether a line starts at an offset. A line also starts after a tag.
func startsLine(text string, at int, boundaries []int) bool {
	return at == 0 || text[at-1] == '\n' || text[at-1] == '>' || isBoundary(boundaries, at)
}

func isBoundary(boundaries []int, at int) bool {
	_, ok := slices.BinarySearch(boundaries, at)
	return ok
}

// matchLines reports whether the lines are in the text at an offset, and returns the end of these lines.
func matchLines(text string, at int, lines []string, boundaries []int) (end int, ok bool) {
	for i, l := range lines {
		if l == "" {
			continue // skipLineEnd has already skipped this blank line
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

// skipLineEnd skips trailing blanks and the line ending at an offset. If all is true, it also skips the blank lines
// after the line. endings is the number of skipped line endings. A boundary counts as two line endings, because the
// client may have split the text at a blank line.
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

// MaxHead is the maximum size, in bytes, of the texts of a request that are searched for sections.
const MaxHead = 256 << 10

// LocateFramed is Locate for the rules files in a text. It returns at most two spans in each file. A file whose end is
// unknown is skipped, because the user's own words may follow the file.
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

// LeavesEmptyPart reports whether cuts leave a part of a text without content. boundaries holds the start offset of
// each part except the first. Some APIs refuse an empty part.
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

// AddEmptiedHeadings adds a cut for each heading whose whole content the cuts remove. cuts are spans that Locate
// returned.
func AddEmptiedHeadings(text string, cuts []Span) []Span {
	regions := []Span{{0, len(text)}}
	for _, f := range Find(text) {
		if slices.ContainsFunc(cuts, func(c Span) bool { return c.Start >= f.Start && c.Start < f.End }) {
			regions = append(regions, Span{f.Start, f.End})
		}
	}
	if len(regions) > 1 { // headings outside of the rules files belong to the agent
		regions = regions[1:]
	}
	for _, r := range regions {
		cuts = addHeadingsIn(text, r, cuts)
	}
	return cuts
}

// addHeadingsIn is Widen for one region. It tests the headings in reverse order, so that an inner heading is cut before
// an outer heading is tested.
func addHeadingsIn(text string, r Span, cuts []Span) []Span {
	sections := headings(text[r.Start:r.End])
	for _, sec := range slices.Backward(sections) {
		s := Span{sec.Start + r.Start, sec.End + r.Start}
		body := Span{sec.Body + r.Start, s.End}
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

// isCovered reports whether the cuts leave only blanks in a range.
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

// FindProhibition returns the first match of prohibitions in a text, in lower case, or "" if there is none.
func FindProhibition(text string) string { return strings.ToLower(prohibitions.FindString(text)) }
