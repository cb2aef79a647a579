package rules

import (
	"fmt"
	"index/suffixarray"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Section is a part of a rules file that can be measured by itself: a heading with all its content, a
// bullet at the left margin, or the text before them.
type Section struct {
	Name       string // heading, or the first words of the bullet; unique in the file
	Level      int    // level of the heading; 0 means a bullet or an introduction
	Start, End int    // bytes in the file, without blank lines at the end
	Body       int    // start of the content after the heading; Start without a heading
	Parent     int    // index of the section that contains this section; -1 if none
	Empty      bool   // a heading without content
	Whole      bool   // the section holds all content of the file: only headings are outside
	Twice      bool   // the text of the section occurs more than once in the file
}

// maxName bounds the name of a section, in runes.
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
	start, end int // end is after the line ending
	text       string
	level      int    // level of the heading that begins here; 0 if none
	title      string // text of the heading
	under      bool   // the second line of a heading with an underline
	code       bool   // inside of a code block, or one of its fences
}

// Split returns the sections of a file in the order of the file. An outer section precedes the sections inside of
// the outer section.
func Split(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines}
	s.walk(0, len(lines), -1)
	s.finish()
	return s.out
}

// headings returns the sections that begin with a heading, without their final names and marks. The work
// is linear in the size of the file.
func headings(file string) []Section {
	lines := readLines(file)
	s := splitter{file: file, lines: lines, headingsOnly: true}
	s.walk(0, len(lines), -1)
	return s.out
}

// readLines returns the lines with their headings.
func readLines(file string) []line {
	var lines []line
	open, front := "", false
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
			front, l.code = true, true // settings of the file, as .mdc files have
		case front:
			l.code, front = true, l.text != "---"
		case open != "":
			l.code = true
			if f != nil && strings.HasPrefix(f[1], open) && strings.TrimSpace(l.text) == f[1] {
				open = ""
			}
		case f != nil:
			open, l.code = f[1], true
		case mark == '#' || mark == '=' || mark == '-':
			l.heading(lines)
		}
		lines = append(lines, l)
	}
	return lines
}

// firstByte returns the first byte of a line after the blanks; 0 means no such byte.
func firstByte(text string) byte {
	if text = strings.TrimLeft(text, " "); text != "" {
		return text[0]
	}
	return 0
}

// heading recognises a heading in l. A heading with an underline begins in the line before.
func (l *line) heading(before []line) {
	if m := atxHeading.FindStringSubmatch(l.text); m != nil {
		l.level, l.title = len(m[1]), m[2]
		return
	}
	m := underline.FindStringSubmatch(l.text)
	if m == nil || len(before) == 0 {
		return
	}
	p := &before[len(before)-1]
	if p.text == "" || p.level > 0 || p.code || p.under || bullet.MatchString(p.text) || len(before) > 1 && isText(&before[len(before)-2]) {
		return
	}
	p.level, p.title, l.under = 2, strings.TrimSpace(p.text), true
	if m[1][0] == '=' {
		p.level = 1
	}
}

// isText reports whether a line is text of a paragraph.
func isText(l *line) bool { return l.text != "" && l.level == 0 && !l.under && !l.code }

// splitter collects the sections of a file.
type splitter struct {
	file         string
	lines        []line
	headingsOnly bool // leave out bullets and introductions
	out          []Section
}

// walk adds the sections of the lines [from, to). The content before the first heading comes first, then each
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
		if body < next && s.lines[body].under {
			body++
		}
		at := s.add(Section{Name: s.lines[i].title, Level: s.lines[i].level, Parent: parent, Empty: s.blank(body, next)}, i, next)
		s.walk(body, next, at)
		i = next
	}
}

// addBullets adds the bullets of lines without headings and, with intro, the text before the first bullet.
func (s *splitter) addBullets(from, to, parent int, intro bool) {
	i := from
	for i < to && (s.lines[i].code || !bullet.MatchString(s.lines[i].text)) {
		i++
	}
	if intro && !s.blank(from, i) {
		for s.lines[from].text == "" {
			from++
		}
		s.add(Section{Name: "intro", Parent: parent}, from, i)
	}
	for i < to {
		next := s.bulletEnd(i, to)
		s.add(Section{Name: bullet.FindStringSubmatch(s.lines[i].text)[1], Parent: parent}, i, next)
		for i = next; i < to && (s.lines[i].code || !bullet.MatchString(s.lines[i].text)); {
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
		if margin && !l.code && (bullet.MatchString(l.text) || s.lines[n-1].text == "") || margin && l.code && s.lines[n-1].text == "" {
			return n
		}
	}
	return to
}

// blank reports whether the lines hold no text.
func (s *splitter) blank(from, to int) bool {
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
		if from+1 < to && s.lines[from+1].under {
			sec.Body = s.lines[from+1].end
		}
	}
	s.out = append(s.out, sec)
	return len(s.out) - 1
}

// finish gives the sections unique names, and marks the sections that hold the whole file or occur twice. An index
// finds the places of all texts, because a file may have many sections.
func (s *splitter) finish() {
	names := make(map[string]int, len(s.out))
	all := Normal(s.file)
	content := s.content()
	places := suffixarray.New([]byte("\n" + all + "\n"))
	for i := range s.out {
		sec := &s.out[i]
		name := short(sec.Name, sec.Level)
		for sec.Name = name; names[sec.Name] > 0; sec.Name = fmt.Sprintf("%s (%d)", name, names[name]) {
			names[name]++
		}
		names[sec.Name]++
		text := Normal(s.file[sec.Start:sec.End])
		sec.Whole = text == all || content.Start >= sec.Start && content.End <= sec.End
		sec.Twice = len(places.Lookup([]byte("\n"+text+"\n"), 2)) > 1
	}
}

// content returns the range of the lines that are neither blank nor headings.
func (s *splitter) content() (span Span) {
	span.Start = len(s.file)
	for i := range s.lines {
		if l := &s.lines[i]; l.text != "" && l.level == 0 && !l.under {
			span.Start, span.End = min(span.Start, l.start), l.end
		}
	}
	return span
}

// short returns the name of a section: one line without marks of Markdown, and the first words of a
// bullet.
func short(name string, level int) string {
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

// Units returns the indices of the sections that divide the file: the outermost sections, and the inner
// sections of a section that holds the whole file.
func Units(sections []Section) (units []int) {
	open := map[int]bool{-1: true}
	for i := range sections {
		s := &sections[i]
		switch {
		case !open[s.Parent]:
		case s.Whole && hasParts(sections, i):
			open[i] = true
		default:
			units = append(units, i)
		}
	}
	return units
}

func hasParts(sections []Section, parent int) bool {
	for i := range sections {
		if sections[i].Parent == parent {
			return true
		}
	}
	return false
}

// Problem returns the reason why a section cannot be measured, "" for none.
func (s *Section) Problem() string {
	switch {
	case s.Empty:
		return "is empty: the heading has no content"
	case s.Twice:
		return "occurs twice in the file, so no single place can be cut; remove one of them"
	case s.Whole:
		return "holds the whole file"
	}
	return ""
}
