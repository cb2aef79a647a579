package session_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// A repeated turn is counted once, but each reply's tokens are added.
func TestFactsCountARepeatedTurnOnce(t *testing.T) {
	t.Parallel()
	var f session.Facts
	add := func(turn, failedResults int) {
		x := sample.Exchange{Turn: turn, At: time.Unix(int64(turn), 0)}
		x.Reply.OutputTokens = 10
		if failedResults > 0 {
			x.ResultJudgements = &sample.ResultJudgements{Results: failedResults, Failed: make([]int, failedResults)}
		}
		f.Add(&x)
	}
	add(1, 0)
	add(2, 2)
	add(2, 2)
	add(2, 2)
	add(3, 1)
	add(2, 2) // arrives late
	if f.Turns != 3 || f.Errors != 3 || f.Output != 60 || f.Newest != 3 {
		t.Errorf("after a repeated turn: got facts %+v, want Turns = 3, Errors = 3, Output = 60 and Newest = 3", f)
	}
}

func TestFactsNameFailedReplies(t *testing.T) {
	t.Parallel()
	var f session.Facts
	for i, status := range []int{200, 429, 429, 399, 400, 503, 0} {
		f.Add(&sample.Exchange{Turn: i + 1, At: time.Unix(int64(i), 0), Status: status})
	}
	slices.Sort(f.ErrorKinds)
	if got, want := strings.Join(f.ErrorKinds, " "), "upstream-400 upstream-429 upstream-503"; got != want {
		t.Errorf("got kinds %q, want %q", got, want)
	}
}

// A preamble is a message that a harness sends before the user's request. FirstWords returns a preamble only if the
// request contains nothing else.
func TestFirstWordsOmitTemplateAndPreamble(t *testing.T) {
	t.Parallel()
	const preamble = `This is the Qwen Code. We are setting up the context for our chat.\nToday is a Friday.`
	const frame = `Please solve this issue: Round the total.\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n## Steps`
	for name, tc := range map[string]struct {
		list []string
		want string
	}{
		"a user message":                {[]string{systemMessage("S"), userMessage("Round the total.")}, "Round the total."},
		"a template":                    {[]string{systemMessage("S"), userMessage(frame)}, "Round the total."},
		"a preamble before the request": {[]string{systemMessage("S"), userMessage(preamble), assistantMessage("Got it."), userMessage("Round the total.")}, "Round the total."},
		"only a preamble":               {[]string{systemMessage("S"), userMessage(preamble)}, strings.ReplaceAll(preamble, `\n`, "\n")},
		"a query after a long note":     {[]string{userMessage("<user_info>" + strings.Repeat("x", 9<<10) + "</user_info><user_query>Round the total.</user_query>")}, "Round the total."},
		"more text than is stored":      {[]string{userMessage("New task:\\n" + strings.Repeat("r", 9<<10))}, strings.Repeat("r", 8<<10)},
		"only a reminder":               {[]string{systemMessage("S"), userMessage("<system-reminder>x</system-reminder>")}, ""},
		"no user message":               {[]string{systemMessage("S")}, ""},
	} {
		if got := session.FirstWords(parseChat(t, tc.list...)); got != tc.want {
			t.Errorf("%s: FirstWords = %.80q (%d bytes), want %.80q (%d bytes)", name, got, len(got), tc.want, len(tc.want))
		}
	}
	if got := session.FirstWords(newContinuation(t, "resp_1", userMessage("Round the total."))); got != "" {
		t.Errorf("request without history: FirstWords = %q, want none", got)
	}
}
