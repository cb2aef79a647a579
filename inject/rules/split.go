package rules

import (
	"fmt"
	"index/suffixarray"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Section is a part of a rules file that can be measured alone: a heading with its content, a bullet at the left
// margin, or the introduction before the first bullet.
type Section struct {
	Name       string // the heading or the bullet's first words; unique in the file
	Level      int    // heading level; otherwise 0
	Start, End int    // offsets without blank lines at the end
	BodyStart  int    // where the content after the heading starts, or Start without a heading
	Parent     int    // index of the enclosing section; -1 if none
	Empty      bool   // a heading without content
	WholeFile  bool   // the section has all of the file's content except headings
	Repeated   bool   // the text occurs more than once in the file
}

// maxName limits a name, in runes.
const maxName = 60

var (
	atxHeading = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	underline  = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	bullet     = regexp.MustCompile(`^(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*)$`)
	fence      = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")

	emphasis = strings.NewReplacer("**", "", "__", "", "`", "") //nolint:gochecknoglobals // immutable
)

type line struct {
	start, end  int // offsets; end includes the line ending
	text        string
	level       int // level of the heading that begins here; 0 if none
	title       string
	isUnderline bool // the line underlines a heading on the line before
	isCode      bool // the line is in a code block, or is a code fence
}

// Split returns the sections in order. An outer section comes before its inner sections.
func Split(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines}
	s.walk(0, len(lines), -1)
	s.completeSections()
	return s.sections
}

// headings returns the sections with a heading, in linear time. It does not set final names, WholeFile and Repeated.
func headings(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines, headingsOnly: true}
	s.walk(0, len(lines), -1)
	return s.sections
}

func readLines(file string) []line {
	var lines []line
	openFence, inFrontmatter := "", false
	for at := 0; at < len(file); {
		end := len(file)
		if i := strings.IndexByte(file[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		l := line{start: at, end: end, text: strings.TrimRight(file[at:end], " \t\r\n")}
		at = end
		mark := firstByte(l.text)
		var f []string
		if mark == '`' || mark == '~' {
			f = fence.FindStringSubmatch(l.text)
		}
		switch {
		case len(lines) == 0 && l.text == "---":
			inFrontmatter, l.isCode = true, true // .mdc files have frontmatter
		case inFrontmatter:
			l.isCode, inFrontmatter = true, l.text != "---"
		case openFence != "":
			l.isCode = true
			if f != nil && strings.HasPrefix(f[1], openFence) && strings.TrimSpace(l.text) == f[1] {
				openFence = ""
			}
		case f != nil:
			openFence, l.isCode = f[1], true
		case mark == '#' || mark == '=' || mark == '-':
			l.recognizeHeading(lines)
		}
		lines = append(lines, l)
	}
	return lines
}

// firstByte returns the first byte after spaces, or 0 for a blank line.
func firstByte(text string) byte {
	if text = strings.TrimLeft(text, " "); text != "" {
		return text[0]
	}
	return 0
}

// recognizeHeading sets level and title on l or, for an underline, on the line before.
func (l *line) recognizeHeading(before []line) {
	if m := atxHeading.FindStringSubmatch(l.text); m != nil {
		l.level, l.title = len(m[1]), m[2]
		return
	}
	m := underline.FindStringSubmatch(l.text)
	if m == nil || len(before) == 0 {
		return
	}
	p := &before[len(before)-1]
	if p.text == "" || p.level > 0 || p.isCode || p.isUnderline || bullet.MatchString(p.text) || len(before) > 1 && isText(&before[len(before)-2]) {
		return
	}
	p.level, p.title, l.isUnderline = 2, strings.TrimSpace(p.text), true
	if m[1][0] == '=' {
		p.level = 1
	}
}

// isText reports whether a line belongs to a paragraph.
func isText(l *line) bool { return l.text != "" && l.level == 0 && !l.isUnderline && !l.isCode }

type splitter struct {
	file         string
	lines        []line
	headingsOnly bool // do not add bullets and introductions
	sections     []Section
}

// walk adds the sections in lines [from, to): the content before the first heading, then each outermost heading.
func (s *splitter) walk(from, to, parent int) {
	first := from
	for first < to && s.lines[first].level == 0 {
		first++
	}
	if !s.headingsOnly {
		s.addBullets(from, first, parent, first < to || parent < 0)
	}
	for i := first; i < to; {
		next := i + 1
		for next < to && (s.lines[next].level == 0 || s.lines[next].level > s.lines[i].level) {
			next++
		}
		body := i + 1
		if body < next && s.lines[body].isUnderline {
			body++
		}
		at := s.add(Section{Name: s.lines[i].title, Level: s.lines[i].level, Parent: parent, Empty: s.isBlank(body, next)}, i, next)
		s.walk(body, next, at)
		i = next
	}
}

// addBullets adds the bullets and, if intro is true, the text before the first bullet.
func (s *splitter) addBullets(from, to, parent int, intro bool) {
	i := from
	for i < to && (s.lines[i].isCode || !bullet.MatchString(s.lines[i].text)) {
		i++
	}
	if intro && !s.isBlank(from, i) {
		for s.lines[from].text == "" {
			from++
		}
		s.add(Section{Name: "intro", Parent: parent}, from, i)
	}
	for i < to {
		next := s.bulletEnd(i, to)
		s.add(Section{Name: bullet.FindStringSubmatch(s.lines[i].text)[1], Parent: parent}, i, next)
		for i = next; i < to && (s.lines[i].isCode || !bullet.MatchString(s.lines[i].text)); {
			i++
		}
	}
}

// bulletEnd returns the index of the first line that does not belong to the bullet in line i. That is the next bullet,
// or text at the left margin after a blank line.
func (s *splitter) bulletEnd(i, to int) int {
	for n := i + 1; n < to; n++ {
		l := &s.lines[n]
		margin := l.text != "" && l.text[0] != ' ' && l.text[0] != '\t'
		if margin && !l.isCode && (bullet.MatchString(l.text) || s.lines[n-1].text == "") || margin && l.isCode && s.lines[n-1].text == "" {
			return n
		}
	}
	return to
}

func (s *splitter) isBlank(from, to int) bool {
	for _, l := range s.lines[from:to] {
		if l.text != "" {
			return false
		}
	}
	return true
}

// add adds a section without blank lines at the end, and returns the section's index.
func (s *splitter) add(sec Section, from, to int) int {
	for to > from && s.lines[to-1].text == "" {
		to--
	}
	if to == from {
		return -1
	}
	sec.Start, sec.End = s.lines[from].start, s.lines[to-1].end
	sec.BodyStart = sec.Start
	if sec.Level > 0 {
		sec.BodyStart = s.lines[from].end
		if from+1 < to && s.lines[from+1].isUnderline {
			sec.BodyStart = s.lines[from+1].end
		}
	}
	s.sections = append(s.sections, sec)
	return len(s.sections) - 1
}

// completeSections sets unique names, WholeFile and Repeated. A suffix array is fast for many sections.
func (s *splitter) completeSections() {
	names := make(map[string]int, len(s.sections))
	all := Normalize(s.file)
	content := s.content()
	places := suffixarray.New([]byte("\n" + all + "\n"))
	for i := range s.sections {
		sec := &s.sections[i]
		name := shortName(sec.Name, sec.Level)
		for sec.Name = name; names[sec.Name] > 0; sec.Name = fmt.Sprintf("%s (%d)", name, names[name]) {
			names[name]++
		}
		names[sec.Name]++
		text := Normalize(s.file[sec.Start:sec.End])
		sec.WholeFile = text == all || content.Start >= sec.Start && content.End <= sec.End
		sec.Repeated = len(places.Lookup([]byte("\n"+text+"\n"), 2)) > 1
	}
}

// content returns the span from the first to the last line that is not blank or a heading.
func (s *splitter) content() (span Span) {
	span.Start = len(s.file)
	for i := range s.lines {
		if l := &s.lines[i]; l.text != "" && l.level == 0 && !l.isUnderline {
			span.Start, span.End = min(span.Start, l.start), l.end
		}
	}
	return span
}

// shortName removes Markdown marks, and keeps a bullet's first words.
func shortName(name string, level int) string {
	words := strings.Fields(emphasis.Replace(name))
	if level == 0 && len(words) > 8 {
		words = words[:8]
	}
	name = strings.Join(words, " ")
	if level == 0 {
		name = strings.TrimRight(name, ".,:;")
	}
	if utf8.RuneCountInString(name) > maxName {
		name = strings.TrimSpace(string([]rune(name)[:maxName]))
	}
	if name == "" {
		return "untitled"
	}
	return name
}

// TopSections returns the indices of the outermost sections. A section with all the file's content is replaced by the
// sections in it.
func TopSections(sections []Section) (indices []int) {
	open := map[int]bool{-1: true}
	for i := range sections {
		s := &sections[i]
		switch {
		case !open[s.Parent]:
		case s.WholeFile && hasInnerSections(sections, i):
			open[i] = true
		default:
			indices = append(indices, i)
		}
	}
	return indices
}

func hasInnerSections(sections []Section, parent int) bool {
	for i := range sections {
		if sections[i].Parent == parent {
			return true
		}
	}
	return false
}

// Problem returns why a section cannot be measured, or "".
func (s *Section) Problem() string {
	switch {
	case s.Empty:
		return "is empty: the heading has no content"
	case s.Repeated:
		return "occurs twice in the file, so precept cannot remove exactly one; delete one of them"
	case s.WholeFile:
		return "contains the whole file"
	}
	return ""
}
