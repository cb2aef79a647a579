package precept_test

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type prose struct{ words, pronouns, clauses, idioms int }

// The limits for a package or page and, with the suffix All, for all together: pronouns per 100 words, clauses that
// begin with What or Who per 1,000 words, and idioms per 1,000 words.
const (
	pronounLimit, clauseLimit, idiomLimit          = 5.0, 0.5, 2.0
	pronounLimitAll, clauseLimitAll, idiomLimitAll = 4.0, 0.2, 1.0

	// minProse is the minimum number of words of a measured text. In a shorter text a few pronouns exceed the limit.
	minProse = 100
)

var (
	proseWord   = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	prosePronom = regexp.MustCompile(`(?i)^(it|its|itself|that|ones?|those|these|what|who|whom|whose|whatever|whoever|such|there|anything|nothing|something|somebody|nobody|everybody|others?|same)$`)
	proseClause = regexp.MustCompile(`(?:^|[.;:]\s+)(?:What|Who|Whoever|Whatever|Wherever|Where)\s`)
	proseIdiom  = regexp.MustCompile(`(?i)\b(tells?|told|anew|nobody|somebody|whoever|stands?|stood|lies|lain|besides?|lets? go|put(?:s|ting)? down|hand(?:s|ed)? (?:over|down)|go(?:es)? on|went by|of (?:which|whom)|by itself|in force|bec[ao]mes? of)\b`)
	proseCode   = regexp.MustCompile("`[^`]*`" + `|\]\([^)]*\)`)
	proseLine   = regexp.MustCompile(`(?m)(?:^|[^:"'` + "`" + `/])//\s(.*)$`)
)

func (p *prose) add(text string) {
	for _, w := range proseWord.FindAllString(text, -1) {
		p.words++
		if prosePronom.MatchString(w) {
			p.pronouns++
		}
	}
	p.clauses += len(proseClause.FindAllString(text, -1))
	p.idioms += len(proseIdiom.FindAllString(text, -1))
}

func (p *prose) rates() (pronouns, clauses, idioms float64) {
	n := float64(max(p.words, 1))
	return 100 * float64(p.pronouns) / n, 1000 * float64(p.clauses) / n, 1000 * float64(p.idioms) / n
}

func (p *prose) within(pronouns, clauses, idioms float64) bool {
	a, b, c := p.rates()
	return a <= pronouns && b <= clauses && c <= idioms
}

func (p *prose) String() string {
	a, b, c := p.rates()
	return fmt.Sprintf("%d words, %.1f pronouns per 100, %.2f What/Who clauses and %.2f idioms per 1,000", p.words, a, b, c)
}

// commentsOf joins consecutive comment lines into one paragraph.
func commentsOf(text string) (paragraphs []string) {
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

func paragraphsOf(text string) (paragraphs []string) {
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

func proseOf(t *testing.T) map[string]*prose {
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
			measure(path.Dir(name), commentsOf(textOf(t, name)))
		}
	}
	for _, name := range walk(t, ".md") {
		if !strings.Contains(name, "testdata/") && !strings.HasPrefix(name, "distill/prompts/") && !strings.Contains(name, "/lessons/") {
			measure(name, paragraphsOf(textOf(t, name)))
		}
	}
	return out
}

// An entry of toRewrite may exceed the limits, and must be removed once it no longer does.
func TestProseIsPlain(t *testing.T) {
	all, listed := prose{}, toRewrite()
	measured := proseOf(t)
	for name, p := range measured {
		all.words, all.pronouns, all.clauses, all.idioms = all.words+p.words, all.pronouns+p.pronouns, all.clauses+p.clauses, all.idioms+p.idioms
		good := p.words < minProse || p.within(pronounLimit, clauseLimit, idiomLimit)
		switch {
		case good && slices.Contains(listed, name):
			t.Errorf("toRewrite lists %s, which is within the limits; remove it", name)
		case !good && !slices.Contains(listed, name):
			t.Errorf("%s: got %s, want at most %.0f, %.1f and %.0f", name, p, pronounLimit, clauseLimit, idiomLimit)
		}
	}
	for _, name := range listed {
		if measured[name] == nil {
			t.Errorf("toRewrite lists %s, which does not exist; remove it", name)
		}
	}
	if len(listed) == 0 && !all.within(pronounLimitAll, clauseLimitAll, idiomLimitAll) {
		t.Errorf("all comments and pages: got %s, want at most %.0f, %.1f and %.0f", &all, pronounLimitAll, clauseLimitAll, idiomLimitAll)
	}
	t.Logf("all comments and pages: %s", &all)
}

func TestProseCountsHardWords(t *testing.T) {
	var p prose
	for _, text := range commentsOf(strings.Join([]string{"// What it tells stands there.", "// Nobody knows.", "func f() {} " + "// put down anew", "//nolint:x // y", ""}, "\n")) {
		p.add(text)
	}
	if want := (prose{10, 4, 1, 5}); p != want {
		t.Errorf("counts of the comments = %+v, want %+v", p, want)
	}
	page := paragraphsOf("# It\n\nThat is `it`.\n\n```\nit\n```\n    it\n")
	if len(page) != 1 || strings.Contains(page[0], "it") {
		t.Errorf("paragraphsOf = %q, want one paragraph without code", page)
	}
}

func toRewrite() []string {
	return []string{}
}
