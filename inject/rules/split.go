package rules

import (
	"fmt"
	"index/suffixarray"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Section is a part of a rules file that can be measured alone: a heading with all its content, a bullet at the
// left margin, or an introduction, which is the text before the first bullet.
type Section struct {
	Name       string // heading, or the first words of the bullet; unique in the file
	Level      int    // level of the heading; 0 for a bullet or an introduction
	Start, End int    // offsets in the file; blank lines at the end are not included
	Body       int    // start of the content after the heading; equals Start without a heading
	Parent     int    // index of the section that contains this section; -1 if none
	Empty      bool   // a heading without content
	WholeFile  bool   // the section contains all content of the file, apart from headings
	Repeated   bool   // the text of the section occurs more than once in the file
}

// maxName is the maximum length of the name of a section, in runes.
const maxName = 60

var (
	atxHeading = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	underline  = regexp.MustCompile(`^ {0,3}(=+|-+)[ \t]*$`)
	bullet     = regexp.MustCompile(`^(?:[-*+]|\d{1,9}[.)])[ \t]+(\S.*)$`)
	fence      = regexp.MustCompile("^ {0,3}(`{3,}|~{3,})")

	emphasis = strings.NewReplacer("**", "", "__", "", "`", "") //nolint:gochecknoglobals // immutable
)

// line is a line of a file, without its line ending.
type line struct {
	start, end  int // offsets in the file; end is after the line ending
	text        string
	level       int    // level of the heading that begins here; 0 if none
	title       string // text of the heading
	isUnderline bool   // the line is the underline of the heading on the line before
	isCode      bool   // the line is in a code block, or is one of its fences
}

// Split returns the sections of a file in the order of the file. An outer section precedes the sections inside of
// the outer section.
func Split(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines}
	s.walk(0, len(lines), -1)
	s.completeSections()
	return s.sections
}

// headings returns the sections that begin with a heading, without their final names and without Whole and Twice. The
// time is linear in the size of the file.
func headings(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines, headingsOnly: true}
	s.walk(0, len(lines), -1)
	return s.sections
}

// readLines returns the lines with their headings.
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
			inFrontmatter, l.isCode = true, true // frontmatter, as in .mdc files
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

// firstByte returns the first byte of a line after the blanks, or 0 for a blank line.
func firstByte(text string) byte {
	if text = strings.TrimLeft(text, " "); text != "" {
		return text[0]
	}
	return 0
}

// recognizeHeading sets level and title if l is a heading. If l is an underline, the heading is the line before.
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

// isText reports whether a line is text of a paragraph.
func isText(l *line) bool { return l.text != "" && l.level == 0 && !l.isUnderline && !l.isCode }

// splitter collects the sections of a file.
type splitter struct {
	file         string
	lines        []line
	headingsOnly bool // leave out bullets and introductions
	sections     []Section
}

// walk adds the sections of the lines [from, to). The content before the first heading is added first, then each
// outermost heading with its content.
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

// addBullets adds the bullets among lines without headings. If intro is true, it also adds the text before the first
// bullet.
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

// bulletEnd returns the line after the bullet that begins in line i: the next bullet, or text at the left
// margin after a blank line.
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

// isBlank reports whether all lines are blank.
func (s *splitter) isBlank(from, to int) bool {
	for _, l := range s.lines[from:to] {
		if l.text != "" {
			return false
		}
	}
	return true
}

// add adds a section of the lines [from, to), without blank lines at the end, and returns its index.
func (s *splitter) add(sec Section, from, to int) int {
	for to > from && s.lines[to-1].text == "" {
		to--
	}
	if to == from {
		return -1
	}
	sec.Start, sec.End = s.lines[from].start, s.lines[to-1].end
	sec.Body = sec.Start
	if sec.Level > 0 {
		sec.Body = s.lines[from].end
		if from+1 < to && s.lines[from+1].isUnderline {
			sec.Body = s.lines[from+1].end
		}
	}
	s.sections = append(s.sections, sec)
	return len(s.sections) - 1
}

// completeSections gives the sections unique names, and sets Whole and Twice. The texts are looked up in a suffix
// array, because a file may have many sections.
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

// content returns the span from the first to the last line that is neither blank nor a heading.
func (s *splitter) content() (span Span) {
	span.Start = len(s.file)
	for i := range s.lines {
		if l := &s.lines[i]; l.text != "" && l.level == 0 && !l.isUnderline {
			span.Start, span.End = min(span.Start, l.start), l.end
		}
	}
	return span
}

// shortName returns the name of a section on one line, without marks of Markdown. The name of a bullet is its first
// words.
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

// TopSections returns the indices of the sections that divide the file: the outermost sections. A section that holds
// the whole file is replaced by its inner sections.
func TopSections(sections []Section) (units []int) {
	open := map[int]bool{-1: true}
	for i := range sections {
		s := &sections[i]
		switch {
		case !open[s.Parent]:
		case s.WholeFile && hasInnerSections(sections, i):
			open[i] = true
		default:
			units = append(units, i)
		}
	}
	return units
}

func hasInnerSections(sections []Section, parent int) bool {
	for i := range sections {
		if sections[i].Parent == parent {
			return true
		}
	}
	return false
}

// Problem returns the reason why a section cannot be measured, or "" if it can.
func (s *Section) Problem() string {
	switch {
	case s.Empty:
		return "is empty: the heading has no content"
	case s.Repeated:
		return "occurs twice in the file, so no single place can be cut; remove one of them"
	case s.WholeFile:
		return "holds the whole file"
	}
	return ""
}
