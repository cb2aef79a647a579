package precept_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// prose counts the words that make a text hard to read.
type prose struct{ words, pronouns, genitives, clauses, idioms int }

// proseRates holds a text's rates: the pronouns and the word "of" per 100 words, and the What and Who clauses and the
// idioms per 1,000 words. The reference code bases have 0.8 to 1.6 "of" per 100 words; translated English has four.
type proseRates struct{ pronouns, genitives, clauses, idioms float64 }

// minProse is the number of words from which on a text is measured. In a shorter text, a few pronouns would already
// exceed the limit.
const minProse = 100

var (
	proseWord     = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	prosePronoun  = regexp.MustCompile(`(?i)^(it|its|itself|that|ones?|those|these|what|who|whom|whose|whatever|whoever|such|there|anything|nothing|something|somebody|nobody|everybody|others?|same)$`)
	proseGenitive = regexp.MustCompile(`(?i)([0-9]%? (?:[a-z]+ )?)?\bof\b`) // not "3 of 5" or "20 MB of"
	proseClause   = regexp.MustCompile(`(?:^|[.;:]\s+)(?:What|Who|Whoever|Whatever|Wherever|Where)\s`)
	proseIdiom    = regexp.MustCompile(`(?i)\b(tells?|told|anew|nobody|somebody|whoever|stands?|stood|lies|lain|besides?|lets? go|put(?:s|ting)? down|hand(?:s|ed)? (?:over|down)|go(?:es)? on|went by|of (?:which|whom)|by itself|in force|bec[ao]mes? of)\b`)
	proseCode     = regexp.MustCompile("`[^`]*`" + `|\]\([^)]*\)`)
	proseLine     = regexp.MustCompile(`(?m)(?:^|[^:"'` + "`" + `/])//\s(.*)$`)
)

func (p *prose) add(text string) {
	for _, w := range proseWord.FindAllString(text, -1) {
		p.words++
		if prosePronoun.MatchString(w) {
			p.pronouns++
		}
	}
	for _, m := range proseGenitive.FindAllStringSubmatch(text, -1) {
		if m[1] == "" {
			p.genitives++
		}
	}
	p.clauses += len(proseClause.FindAllString(text, -1))
	p.idioms += len(proseIdiom.FindAllString(text, -1))
}

func (p *prose) addCounts(q *prose) {
	p.words, p.pronouns, p.genitives = p.words+q.words, p.pronouns+q.pronouns, p.genitives+q.genitives
	p.clauses, p.idioms = p.clauses+q.clauses, p.idioms+q.idioms
}

func (p *prose) rates() proseRates {
	n := float64(max(p.words, 1))
	return proseRates{100 * float64(p.pronouns) / n, 100 * float64(p.genitives) / n, 1000 * float64(p.clauses) / n, 1000 * float64(p.idioms) / n}
}

func (r proseRates) within(limit proseRates) bool {
	return r.pronouns <= limit.pronouns && r.genitives <= limit.genitives && r.clauses <= limit.clauses && r.idioms <= limit.idioms
}

func (r proseRates) String() string {
	return fmt.Sprintf("%.1f pronouns and %.1f \"of\" per 100 words, %.2f What/Who clauses and %.2f idioms per 1,000", r.pronouns, r.genitives, r.clauses, r.idioms)
}

// commentParagraphs joins consecutive comment lines into one paragraph.
func commentParagraphs(text string) (paragraphs []string) {
	var block []string
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "//go:") || strings.HasPrefix(trimmed, "//nolint"):
		case strings.HasPrefix(trimmed, "//"):
			block = append(block, strings.TrimSpace(trimmed[2:]))
			continue
		default:
			if m := proseLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
				paragraphs = append(paragraphs, m[1])
			}
		}
		if len(block) > 0 {
			paragraphs = append(paragraphs, strings.Join(block, " "))
			block = nil
		}
	}
	return paragraphs
}

// pageParagraphs returns a page's paragraphs without headings and code.
func pageParagraphs(text string) (paragraphs []string) {
	fenced := false
	var block []string
	for line := range strings.Lines(text + "\n\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		switch {
		case fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "#"):
		case trimmed != "":
			block = append(block, proseCode.ReplaceAllString(trimmed, " "))
		case len(block) > 0:
			paragraphs = append(paragraphs, strings.Join(block, " "))
			block = nil
		}
	}
	return paragraphs
}

// measureProse measures each package's comments and each page.
func measureProse(t *testing.T) map[string]*prose {
	t.Helper()
	out := map[string]*prose{}
	measure := func(key string, paragraphs []string) {
		if out[key] == nil {
			out[key] = &prose{}
		}
		for _, p := range paragraphs {
			out[key].add(p)
		}
	}
	for _, name := range walk(t, ".go") {
		if !strings.Contains(name, "testdata/") {
			measure(path.Dir(name), commentParagraphs(readText(t, name)))
		}
	}
	for _, name := range walk(t, ".md") {
		if !strings.Contains(name, "testdata/") && !strings.HasPrefix(name, "distill/prompts/") && !strings.Contains(name, "/lessons/") {
			measure(name, pageParagraphs(readText(t, name)))
		}
	}
	return out
}

// A package or page in toRewrite is allowed to exceed the limits. The test fails if the entry is no longer needed.
func TestProseIsPlain(t *testing.T) {
	limit := proseRates{pronouns: 5, genitives: 3, clauses: 0.5, idioms: 2} // for a package or page
	limitAll := proseRates{pronouns: 4, genitives: 2, clauses: 0.2, idioms: 1}
	all, listed := prose{}, toRewrite()
	measured := measureProse(t)
	for name, p := range measured {
		all.addCounts(p)
		isPlain := p.words < minProse || p.rates().within(limit)
		switch {
		case isPlain && slices.Contains(listed, name):
			t.Errorf("toRewrite lists %s, which is within the limits; remove it", name)
		case !isPlain && !slices.Contains(listed, name):
			t.Errorf("%s: got %s, want at most %s", name, p.rates(), limit)
		}
	}
	for _, name := range listed {
		if measured[name] == nil {
			t.Errorf("toRewrite lists %s, which does not exist; remove it", name)
		}
	}
	if len(listed) == 0 && !all.rates().within(limitAll) {
		t.Errorf("all comments and pages: got %s, want at most %s", all.rates(), limitAll)
	}
	t.Logf("all comments and pages: %d words, %s", all.words, all.rates())
}

func TestProseCountsPronounsAndIdioms(t *testing.T) {
	var p prose
	for _, text := range commentParagraphs(strings.Join([]string{"// What it tells stands there.", "// Nobody knows of.", "func f() {} " + "// put down anew", "//nolint:x // y", ""}, "\n")) {
		p.add(text)
	}
	if want := (prose{words: 11, pronouns: 4, genitives: 1, clauses: 1, idioms: 5}); p != want {
		t.Errorf("prose of the comments = %+v, want %+v", p, want)
	}
	page := pageParagraphs("# It\n\nThat is `it`.\n\n```\nit\n```\n    it\n")
	if len(page) != 1 || strings.Contains(page[0], "it") {
		t.Errorf("pageParagraphs = %q, want one paragraph without code", page)
	}
}

func toRewrite() []string {
	return []string{}
}
