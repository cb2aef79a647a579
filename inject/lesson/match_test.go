package lesson

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"
)

func lessonWithTrigger(slug string, t Trigger) *Lesson {
	return &Lesson{Slug: slug, Title: slug, State: Active, Outcome: "success", Trigger: t}
}

func lessonWithKeywords(slug string, keywords ...string) *Lesson {
	return lessonWithTrigger(slug, Trigger{Keywords: keywords})
}

// matchedSlugs returns each match as "slug@call". The call is empty for a match in the user text.
func matchedSlugs(b *Book, q *Query) []string {
	var out []string
	for _, h := range b.Match(q) {
		out = append(out, h.Lesson.Slug+"@"+h.CallID)
	}
	return out
}

func TestPhrasesMatchWholeWords(t *testing.T) {
	base64 := strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA9k", 40)
	cases := []struct {
		phrase, text string
		want         bool
	}{
		{"go test", "please run GO  \r\n\t test now", true},
		{"go test", "cargo test", false},
		{"go test", "go tests", false},
		{"go test", "go_test", false},
		{"go test", "go.test", false},
		{"go test", "(go test)", true},
		{"go test", "go\u00a0test", true},
		{"go test", "go\u200b test", true},
		{"go test*", "go testing", true},
		{"go test*", "go test", true},
		{"*Error", "an ImportError here", true},
		{"*Error", "an Error here", true},
		{"*Error", "an ImportErrors here", false},
		{"test_*_x", "test_foo_x", true},
		{"test_*_x", "test__x", true},
		{"test_*_x", "test_foo bar_x", false},
		{"pre*mid*end", "premidmidend", true},
		{"pre*mid*end", "preend midend", false},
		{"a*b c*d", "aXXb cYYd", true},
		{"a*b c*d", "aXXb  \n cYYde", false},
		{"**double**", "xdoubley", true},
		{"module * not found", "Module foo not found", false},
		{"module * not found", "Module * not found", true},
		{"select * from", "SELECT  *\nFROM users", true},
		{"select * from", "select name from users", false},
		{"*.go files", "all *.go files", true},
		{"rm -rf *", "run rm -rf * there", true},
		{"a * b", "a*b", false},
		{"module * not found", "module not found", false},
		{".env", "read config/.env please", true},
		{".env", "read config/.environment", false},
		{"--force", "git push --force", true},
		{"c++", "in c++11", true},
		{"c++", "objc++", false},
		{"straße", "STRAẞE", true},
		{"STRASSE", "straße", false}, // simple case folding does not map ß to SS
		{"ὀδυσσεύς", "ὈΔΥΣΣΕΎΣ", true},
		{"istanbul", "İSTANBUL", true},
		{"istanbul", "i̇stanbul", true},
		{"İstanbul", "ISTANBUL", true},
		{"dısk", "DISK", true},
		{"kelvin", "\u212aelvin", true},
		{"äöü", "ÄÖÜ", true},
		{"naïve", "naïvely", false},
		{"cafe", "cafe\u0301", false},
		{"café", "cafe\u0301", true},
		{"cafe\u0301", "CAFÉ", true},
		{"한글", "\u1112\u1161\u11ab\u1100\u1173\u11af", true},
		{"测试", "请运行测试文件", true},
		{"ไฟล์", "เปิดไฟล์นี้", true},
		{"привет мир", "Привет,  мир", false},
		{"привет мир", "ПРИВЕТ\nМИР", true},
		{"😀 smile", "😀  SMILE", true},
		{"abc", base64 + "+abc+" + base64, false},
		{"abc", base64 + " abc " + base64, true},
		{"abc", base64 + "\nabc", true},
		{"end", strings.Repeat("x ", maxText) + "the end", true},
		{"middle", strings.Repeat("x ", halfText) + "middle" + strings.Repeat(" x", halfText), false},
		{"load more", strings.Repeat("x ", halfText/2-2) + "load" + strings.Repeat("y ", 99) + "more" + strings.Repeat(" x", halfText/2-2), false},
		{"src/app/main", strings.Repeat("/usr/lib/x", 7) + "/src/app/main", true},
		{"no", "anything at all, no", false}, // stop words are not searched
		{"x", "x y z", false},
		{"=>", "a => b", false},
		{"", "anything", false},
		{"*", "anything", false},
	}
	for _, tc := range cases {
		b := NewBook([]*Lesson{lessonWithKeywords("it", tc.phrase)})
		if got := len(b.Match(&Query{Words: []string{tc.text}})) > 0; got != tc.want {
			t.Errorf("%q in %.60q: match = %v, want %v", tc.phrase, tc.text, got, tc.want)
		}
		if got := phraseMatches(tc.phrase, tc.text, FormAIP11); got != tc.want {
			t.Errorf("phraseMatches(%q, %.60q) = %v, want %v", tc.phrase, tc.text, got, tc.want)
		}
	}
}

func TestEachConditionLimitsTheMatch(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	words := func(s string) Query {
		return Query{Words: []string{s}, Now: now, Agent: "Coder-2", Role: "reviewer", Model: "gpt-5", Tools: []string{"Bash", "Edit"}}
	}
	failed := func(texts ...string) Query {
		q := words("hello")
		for i, s := range texts {
			q.Errors = append(q.Errors, ErrorText{CallID: fmt.Sprintf("c%d", i+1), Tool: "exec_command", Text: s})
		}
		return q
	}
	kw := Trigger{Keywords: []string{"load more"}, ErrorPatterns: []string{"no such page"}, NotKeywords: []string{"dry run"}}
	with := func(change func(*Trigger)) Trigger {
		c := kw
		change(&c)
		return c
	}
	cases := []struct {
		name string
		trig Trigger
		q    Query
		want string
	}{
		{"keyword in user text", kw, words("Load more"), "l@"},
		{"keyword in an error", kw, failed("cannot load more"), "l@c1"},
		{"keyword or pattern in several errors: newest wins", kw, failed("no such page", "fine", "no such page", "x"), "l@c3"},
		{"error pattern in user text", kw, words("no such page"), ""},
		{"user text has priority over errors", kw, func() Query { q := failed("no such page"); q.Words = []string{"load more"}; return q }(), "l@"},
		{"not_keyword in user text", kw, words("load more, but as a dry run"), ""},
		{"not_keyword in an error", kw, func() Query { q := failed("this was a dry run"); q.Words = []string{"load more"}; return q }(), ""},
		{"keyword split between two texts", kw, func() Query { q := words("load"); q.Words = append(q.Words, "more"); return q }(), ""},
		{"query tag", Trigger{Tags: []string{"error-handling"}}, func() Query { q := words("x"); q.Tags = []string{" Error-Handling "}; return q }(), "l@"},
		{"tag as a word", Trigger{Tags: []string{"error-handling"}}, words("mind the error-handling."), "l@"},
		{"tag in another word", Trigger{Tags: []string{"error-handling"}}, words("terror-handling"), ""},
		{"empty trigger", Trigger{}, words("anything"), ""},
		{"stop word", Trigger{Keywords: []string{"the"}}, words("the"), ""},
		{"target agent", with(func(t *Trigger) { t.Targets = []Target{{Operator: "coder*"}} }), words("load more"), "l@"},
		{"wrong role", with(func(t *Trigger) { t.Targets = []Target{{Operator: "coder*", Role: "writer"}} }), words("load more"), ""},
		{"second of two targets", with(func(t *Trigger) { t.Targets = []Target{{Role: "writer"}, {Role: "REVIEW??"}} }), words("load more"), "l@"},
		{"skill not given", with(func(t *Trigger) { t.Targets = []Target{{Skill: "go"}} }), words("load more"), ""},
		{"target without trigger", with(func(t *Trigger) { t.Targets = []Target{{Role: "reviewer"}} }), words("hello"), ""},
		{"model", with(func(t *Trigger) { t.Models = []string{"claude*", "GPT-*"} }), words("load more"), "l@"},
		{"other model", with(func(t *Trigger) { t.Models = []string{"claude*"} }), words("load more"), ""},
		{"tool offered", with(func(t *Trigger) { t.Tools = []string{"bash"} }), words("load more"), "l@"},
		{"tool not offered", with(func(t *Trigger) { t.Tools = []string{"browser"} }), words("load more"), ""},
		{"failed call's tool", with(func(t *Trigger) { t.Tools = []string{"exec_*"} }), failed("no such page"), "l@c1"},
		{"tool without a failed call, keyword in user text", with(func(t *Trigger) { t.Tools = []string{"exec_*"} }), words("load more"), ""},
		{"failed call's tool, keyword in user text and pattern in the error", with(func(t *Trigger) { t.Tools = []string{"exec_*"} }), func() Query { q := failed("no such page"); q.Words = []string{"load more"}; return q }(), "l@c1"},
	}
	for _, tc := range cases {
		b := NewBook([]*Lesson{lessonWithTrigger("l", tc.trig), lessonWithTrigger("z", Trigger{Keywords: []string{"zebra crossing"}})})
		for range 2 {
			if got := strings.Join(matchedSlugs(b, &tc.q), " "); got != tc.want {
				t.Errorf("%s: matches = %q, want %q", tc.name, got, tc.want)
			}
		}
	}
}

func TestMatchDependsOnStateAndTime(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var lessons []*Lesson
	add := func(slug string, change func(*Lesson)) {
		l := lessonWithKeywords(slug, "load more")
		change(l)
		lessons = append(lessons, l)
	}
	for _, s := range []State{Candidate, Quarantined, Trial, Active, Caution, Benched, Superseded, Expired, Archived, Rejected} {
		add("state-"+string(s), func(l *Lesson) { l.State = s })
	}
	add("expired", func(l *Lesson) { l.ExpiresAt = now })
	add("expires-soon", func(l *Lesson) { l.ExpiresAt = now.Add(2 * time.Second) })
	add("old-a", func(*Lesson) {})
	add("mid-a", func(l *Lesson) { l.State, l.Supersedes = Archived, []string{"old-a"} })
	add("new-a", func(l *Lesson) { l.Supersedes = []string{"mid-a"}; l.ExpiresAt = now.Add(2 * time.Second) })
	add("kept", func(*Lesson) {})
	add("would-replace", func(l *Lesson) { l.State, l.Supersedes = Quarantined, []string{"kept"} })
	add("ring-a", func(l *Lesson) { l.Supersedes = []string{"ring-b"} })
	add("ring-b", func(l *Lesson) { l.Supersedes = []string{"ring-a", "under-ring"} })
	add("under-ring", func(*Lesson) {})
	add("own-tail", func(l *Lesson) { l.Supersedes = []string{"own-tail", "nobody"} })
	b := NewBook(lessons)
	want := "expires-soon@ kept@ new-a@ own-tail@ ring-a@ ring-b@ state-active@ state-benched@ state-caution@ state-trial@"
	if got := strings.Join(matchedSlugs(b, &Query{Words: []string{"load more"}, Now: now}), " "); got != want {
		t.Errorf("matches now =\n%s\nwant\n%s", got, want)
	}
	later := now.Add(3 * time.Second)
	want = "kept@ old-a@ own-tail@ ring-a@ ring-b@ state-active@ state-benched@ state-caution@ state-trial@"
	if got := strings.Join(matchedSlugs(b, &Query{Words: []string{"load more"}, Now: later}), " "); got != want {
		t.Errorf("matches 3 seconds later =\n%s\nwant\n%s", got, want)
	}
	for slug, want := range map[string]State{"old-a": Superseded, "expired": Expired, "state-trial": Trial, "mid-a": Archived, "expires-soon": Active, "ring-a": Active} {
		if got, ok := b.StateAt(slug, now); !ok || got != want {
			t.Errorf("StateAt(%s) = state %q, found %v, want state %q, found true", slug, got, ok, want)
		}
	}
	if _, ok := b.StateAt("nobody", now); ok {
		t.Error("StateAt(unknown slug): ok = true, want false")
	}
	if b.Len() != len(lessons) || len(b.Lessons()) != len(lessons) {
		t.Errorf("len(Lessons()) = %d, Len() = %d, want %d", len(b.Lessons()), b.Len(), len(lessons))
	}
}

func TestBookHashDependsOnLessonsNotOrder(t *testing.T) {
	a, b := lessonWithKeywords("a-a", "x y"), lessonWithKeywords("b-b", "y z")
	want := NewBook([]*Lesson{b, a}).Hash()
	if NewBook([]*Lesson{a, b}).Hash() != want {
		t.Error("Hash is different for the lessons in a different order, want the same hash")
	}
	c := *b
	c.State = Benched
	if NewBook([]*Lesson{a, &c}).Hash() == want {
		t.Error("Hash is the same after a lesson's state changed, want a different hash")
	}
	if NewBook(nil).Hash() == want || len(NewBook(nil).Match(&Query{Words: []string{"x y"}})) != 0 {
		t.Error("the empty book has the same hash as a book with lessons, or matches \"x y\"")
	}
	if l, ok := NewBook([]*Lesson{a, {Slug: "a-a", Path: "zz", State: Active}}).Get("a-a"); !ok || l != a {
		t.Errorf("two lessons with the slug a-a: the book has %+v, want the first by path", l)
	}
}

func TestConcurrentMatchesAreIndependent(t *testing.T) {
	b := NewBook([]*Lesson{lessonWithKeywords("a-a", "alpha beta"), lessonWithKeywords("b-b", "gamma*")})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				text, want := "alpha beta", "a-a@"
				if i%2 == 0 {
					text, want = "gammas", "b-b@"
				}
				if got := strings.Join(matchedSlugs(b, &Query{Words: []string{text}}), " "); got != want {
					t.Errorf("%q matches %q, want %q", text, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// naiveMatch is a slow reference matcher that tries every position and every star length. It shares only the folding
// and the classification of characters with the real matcher.
func naiveMatch(phrase, text string) bool {
	folded := func(s string) []rune {
		var out []rune
		for _, r := range toNFKC(s) {
			r = fold(asciiPunctuation(r))
			switch n := len(out); {
			case unicode.IsSpace(r) && (n == 0 || out[n-1] == ' ' || isUnspaced(out[n-1])):
			case unicode.IsSpace(r):
				out = append(out, ' ')
			case isUnspaced(r) && n > 0 && out[n-1] == ' ':
				out[n-1] = r
			case isInvisible(r), r == 0x0307 && n > 0 && out[n-1] == 'i':
			default:
				out = append(out, r)
			}
		}
		return out
	}
	isWordRune := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }
	isWordLetter := func(r rune) bool { return isWordRune(r) && classifyRune(r) != loneKind }
	p, s := []rune(strings.TrimRight(string(folded(phrase)), " ")), folded(text)
	isStar := func(i int) bool { // p[i] is a * next to a word character
		a, b := i, i
		for a > 0 && p[a-1] == '*' {
			a--
		}
		for b+1 < len(p) && p[b+1] == '*' {
			b++
		}
		return p[i] == '*' && (a > 0 && isWordRune(p[a-1]) || b+1 < len(p) && isWordRune(p[b+1]))
	}
	edge := func(i int) bool { return i == 0 || i == len(s) || !isWordLetter(s[i-1]) || !isWordLetter(s[i]) }
	var matchRest func(i, j int) bool
	matchRest = func(i, j int) bool {
		if i == len(p) {
			return isStar(i-1) || edge(j)
		}
		if !isStar(i) {
			return j < len(s) && s[j] == p[i] && matchRest(i+1, j+1)
		}
		for {
			if matchRest(i+1, j) {
				return true
			}
			if j == len(s) || !isWordRune(s[j]) {
				return false
			}
			j++
		}
	}
	for j := range len(s) + 1 {
		if (isStar(0) || !isWordLetter(p[0]) || edge(j)) && matchRest(0, j) {
			return true
		}
	}
	return false
}

// assertNaiveMatch checks that Match and naiveMatch find the same phrases in text.
func assertNaiveMatch(tb testing.TB, phrases []string, text string) {
	tb.Helper()
	var lessons []*Lesson
	var want []string
	for i, p := range phrases {
		slug := fmt.Sprintf("p%03d", i)
		lessons = append(lessons, lessonWithKeywords(slug, p))
		if read := readPhrase(p, FormAIP11); read.canTrigger() && naiveMatch(p, text) {
			want = append(want, slug+"@")
		}
	}
	got := matchedSlugs(NewBook(lessons), &Query{Words: []string{text}})
	if !slices.Equal(got, want) {
		tb.Fatalf("phrases %q\ntext %q\ngot  %q\nwant %q", phrases, text, got, want)
	}
}

func TestMatchAgreesWithTheReferenceMatcher(t *testing.T) {
	phrase := rapid.StringMatching(`[ab*]{1,3}[abß*. ]{0,5}[ab*é测]{1,3}`)
	text := rapid.StringMatching(`([abAB]{1,6}|[ßẞéÉ测_.\-]{1,2}|[ \n\x{200b}]{1,3}){0,20}`)
	rapid.Check(t, func(rt *rapid.T) {
		phrases := rapid.SliceOfN(phrase, 1, 12).Draw(rt, "phrases")
		assertNaiveMatch(t, phrases, text.Draw(rt, "text"))
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("go test*|cargo test|*Error", "run GO\n testing; ImportError")
	f.Add("a*b|ab|b a|İi|ß", "aXb ab a i̇ı ẞ")
	f.Add("a*b|a\x00b", "aXb") // a NUL byte is not a wildcard
	f.Add("测试|x", "运行测试 x")
	f.Add("aa|aaa|a*aa*a", "aaaaaaaa aaa aa")
	f.Fuzz(func(t *testing.T, list, text string) {
		if len(list) > 200 || len(text) > minMixedBlob {
			return // the naive matcher does not skip encoded data
		}
		if strings.ContainsFunc(list+text, func(r rune) bool { return runeScript(r) != otherScript }) {
			return // the naive matcher does not strip articles and particles that some scripts attach to words
		}
		phrases := strings.Split(strings.ToValidUTF8(list, ""), "|")
		for i := range phrases {
			if strings.Count(phrases[i], "*") > 4 { // the naive matcher is exponential
				return
			}
		}
		assertNaiveMatch(t, phrases, strings.ToValidUTF8(text, ""))
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("co*r-?", "Coder-2")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 20 || len(name) > 20 {
			return
		}
		if strings.ContainsAny(pattern, "?*") {
			if matchesGlob(pattern, name) && !matchesGlob("*"+pattern+"*", name) {
				t.Errorf("pattern %[1]s matches %[2]q, but pattern *%[1]s* does not", pattern, name)
			}
			return
		}
		if got := matchesGlob(pattern, name); got != (string([]rune(strings.ToLower(pattern))) == string([]rune(strings.ToLower(name)))) {
			t.Errorf("matchesGlob(%q, %q) = %v, want true only if the pattern equals the name, apart from letter case", pattern, name, got)
		}
	})
}

// Match returns no lesson if the search needs more work than maxWork. A phrase that 3000 lessons share may occur
// thousands of times in a text without exceeding maxWork.
func TestMatchCostIsBounded(t *testing.T) {
	const lessons = 3000
	book := func(phrase func(i int) string) *Book {
		list := make([]*Lesson, lessons)
		for i := range list {
			list[i] = lessonWithKeywords(fmt.Sprintf("l%04d", i), phrase(i))
		}
		return NewBook(list)
	}
	a := strings.Repeat("a", 9)
	for name, tc := range map[string]struct {
		phrase  func(i int) string
		text    string
		exceeds bool
		hits    int
	}{
		"phrases with a star that do not match": {func(i int) string { return fmt.Sprint(a, "*b", i) }, strings.Repeat(a+"ab ", 500), true, 0},
		"nested suffixes, found once":           {func(i int) string { return strings.Repeat("a ", i+2) + "b" }, strings.Repeat("a ", 4000) + "b", false, lessons},
		"nested suffixes, found 4000 times":     {func(i int) string { return strings.Repeat("a ", i+1) + "a" }, strings.Repeat("a ", 4000), true, 0},
		"one phrase, found 4000 times":          {func(int) string { return "build script" }, strings.Repeat("the build script ", 4000), false, lessons},
	} {
		q := Query{Words: []string{tc.text}}
		hits := book(tc.phrase).Match(&q)
		if q.LimitExceeded != tc.exceeds || len(hits) != tc.hits {
			t.Errorf("%s: got LimitExceeded = %v and %d matches, want LimitExceeded = %v and %d matches", name, q.LimitExceeded, len(hits), tc.exceeds, tc.hits)
		}
	}
}
