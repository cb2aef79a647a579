package session

import (
	"strings"
	"testing"

	"precept/internal/wire"
)

// recap is a summary. The agent sends back only the part after the thoughts.
const recap = "<thoughts>\nshort\n</thoughts>\n<recap>\n" +
	"The user wants the parser upgraded; the narrow tests pass, the wide ones have not run yet.\n" +
	"next: run them\n</recap>"

func (f *fixture) summarise(history []obj, summary string) {
	r := f.resolve(chat(f.t, extend(history, userMessage("Sum up what has happened so far."))...))
	rep := wire.Reply{ID: "chatcmpl-s", Text: summary, Complete: true}
	f.threads.RecordReply(r, &rep, false)
	f.threads.RecordEnd(r, true, f.now)
}

func TestThreadRequestWithSummaryKeepsSession(t *testing.T) {
	f := newFixture(t)
	history := []obj{userMessage("upgrade the parser")}
	a := f.resolveAndAnswer(chat(t, history...), callReply("toolu_01A09q90qw90lq917"))
	history = extend(history, callMessage("toolu_01A09q90qw90lq917", "{}"), resultMessage("toolu_01A09q90qw90lq917", "no"))
	f.summarise(history, recap)

	_, kept, _ := strings.Cut(recap, "</thoughts>\n")
	next := []obj{userMessage(kept + "\n\nGo on from here."), assistantMessage("Understood."), userMessage("and now?")}
	b := f.resolveAndAnswer(chat(t, next...), callReply("toolu_01B09q90qw90lq918"))
	f.assertSameSession("request beginning with the summary", a, b)
	if b.Method != ByEcho || b.New {
		t.Errorf("request beginning with the summary: got %+v, want Method = %q and New = false", b, ByEcho)
	}
	f.assertSameSession("next turn", a, f.resolveAndAnswer(chat(t, extend(next, callMessage("toolu_01B09q90qw90lq918", "{}"), resultMessage("toolu_01B09q90qw90lq918", "ok"))...), textReply("Done.")))

	f.assertDifferentSessions("request beginning with a part of the summary", a, f.resolve(chat(t, userMessage("The user wants the parser upgraded."), assistantMessage("Understood."), userMessage("and now?"))))
	other := f.threads.Resolve(Scope{Tenant: "default", Credential: 2}, Claim{}, chat(t, next...), f.now, nil)
	f.assertDifferentSessions("same request under another credential", a, other)
}

// A user can paste a reply into another conversation. Only the reply to a side request counts as a summary, so a pasted
// reply to a main request starts a new session.
func TestThreadPastedReplyIsNotSummary(t *testing.T) {
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("sum up")), textReply(recap))
	f.assertDifferentSessions("reply pasted into a new conversation", a, f.resolve(chat(t, userMessage(recap))))
}

func TestThreadCommonSummaryHeadingIsIgnored(t *testing.T) {
	const heading = "## What has been decided and done in this session so far\n"
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("upgrade the parser")), callReply("toolu_01A09q90qw90lq917"))
	f.summarise([]obj{userMessage("upgrade the parser"), callMessage("toolu_01A09q90qw90lq917", "{}"), resultMessage("toolu_01A09q90qw90lq917", "no")}, heading+"The narrow tests of the parser pass, the wide ones have not run.")
	f.assertDifferentSessions("another summary with the same heading", a, f.resolve(chat(t, userMessage(heading+"The docs of the lexer are written but not yet linked."), assistantMessage("Understood."), userMessage("and now?"))))
}

func TestThreadSharedSummaryStartsNewSession(t *testing.T) {
	f := newFixture(t)
	var first [2]Resolved
	for i, id := range []string{"toolu_01A09q90qw90lq917", "toolu_01C09q90qw90lq919"} {
		history := []obj{userMessage("upgrade the parser")}
		first[i] = f.resolveAndAnswer(chat(t, history...), callReply(id))
		f.summarise(extend(history, callMessage(id, "{}"), resultMessage(id, "no")), recap)
	}
	r := f.resolve(chat(t, userMessage(recap), assistantMessage("Understood."), userMessage("and now?")))
	f.assertDifferentSessions("first session with the summary", first[0], r)
	f.assertDifferentSessions("second session with the summary", first[1], r)
}

// truncatedMessage is the first message in cline's truncated history: the text and a note.
func truncatedMessage(text string) obj {
	return obj{"role": "user", "content": []obj{{"type": "text", "text": text}, {"type": "text", "text": "<SYSTEM_NOTICE>\nEarlier context was compacted. Commands ran:\nmake\n</SYSTEM_NOTICE>"}}}
}

func TestThreadTruncatedHistoryKeepsSession(t *testing.T) {
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("upgrade the parser")), callReply("call_a81b9c2d3e4f5061"))
	f.resolveAndAnswer(chat(t, userMessage("write the docs")), callReply("call_b81b9c2d3e4f5062"))
	r := f.resolveAndAnswer(chat(t, truncatedMessage("upgrade the parser")), callReply("call_c81b9c2d3e4f5063"))
	f.assertSameSession("only session with this first message", a, r)
	f.assertSameSession("next turn", a, f.resolve(chat(t, truncatedMessage("upgrade the parser"), callMessage("call_c81b9c2d3e4f5063", "{}"), resultMessage("call_c81b9c2d3e4f5063", "ok"))))
	f.assertDifferentSessions("first message without the note", a, f.resolve(chat(t, userMessage("upgrade the parser"))))
	f.assertDifferentSessions("another first message with the note", a, f.resolve(chat(t, truncatedMessage("upgrade the lexer"))))
	f.assertDifferentSessions("another credential", a, f.threads.Resolve(Scope{Tenant: "default", Credential: 2}, Claim{}, chat(t, truncatedMessage("upgrade the parser")), f.now, nil))
}

// A truncated history can belong to several sessions with the same first message. precept then continues the session
// with a failed request. If no session has one, the request starts a new session.
func TestThreadTruncatedHistoryContinuesFailedSession(t *testing.T) {
	f := newFixture(t)
	history := func(id string) []obj {
		return []obj{userMessage("upgrade the parser"), callMessage(id, "{}"), resultMessage(id, "no")}
	}
	a := f.resolveAndAnswer(chat(t, userMessage("upgrade the parser")), callReply("call_a81b9c2d3e4f5061"))
	b := f.resolveAndAnswer(chat(t, userMessage("upgrade the parser")), callReply("call_b81b9c2d3e4f5062"))
	f.assertDifferentSessions("two conversations", a, b)
	r := f.resolveAndAnswer(chat(t, truncatedMessage("upgrade the parser")), callReply("call_d81b9c2d3e4f5064"))
	f.assertDifferentSessions("first session, no failed request", a, r)
	f.assertDifferentSessions("second session, no failed request", b, r)

	fail := func(id string) {
		r := f.resolve(chat(t, history(id)...))
		f.threads.RecordEnd(r, false, f.now)
	}
	fail("call_b81b9c2d3e4f5062")
	f.assertSameSession("session with a failed request", b, f.resolve(chat(t, truncatedMessage("upgrade the parser"))))
}

// A line with at least minLoneSummaryLine bytes gets its own key. Two successive lines with at least minSummaryLine
// bytes each share one key.
func TestSummaryKeysRequireLongLines(t *testing.T) {
	sc := Scope{Tenant: "default"}
	long := strings.Repeat("a line that is long enough to belong to one conversation\n", 3)
	for _, tc := range []struct {
		name, text  string
		limit, want int
	}{
		{"empty text", "", 8, 0},
		{"short lines", "a\nb\nFix the parser", 8, 0},
		{"one long line", long[:len(long)/3], 8, 0},
		{"three long lines, two adjacent pairs", long, 8, 2},
		{"a very long line", strings.Repeat("word ", 20), 8, 1},
		{"a line with minLoneSummaryLine bytes", strings.Repeat("x", minLoneSummaryLine), 8, 1},
		{"a line one byte shorter", strings.Repeat("x", minLoneSummaryLine-1), 8, 0},
		{"more keys than the limit", strings.Repeat(long, 9), 2, 2},
		{"long lines after the first 64 KiB", strings.Repeat("\n", summaryBytes) + long, 8, 0},
	} {
		if got := len(summaryKeys(sc, tc.text, tc.limit)); got != tc.want {
			t.Errorf("%s: got %d keys, want %d", tc.name, got, tc.want)
		}
	}
	if a, b := summaryKeys(sc, long, 1), summaryKeys(sc, "  "+long, 1); a[0] != b[0] {
		t.Errorf("got key %x for a summary and %x for the same summary indented, want the same key", a[0], b[0])
	}
}
