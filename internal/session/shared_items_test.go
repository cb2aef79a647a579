package session_test

import (
	"fmt"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/internal/wire"
)

func systemMessage(s string) string { return `{"role":"system","content":"` + s + `"}` }

func userMessages(n int) (list []string) {
	for i := range n {
		list = append(list, userMessage(fmt.Sprintf("filler %d", i)))
	}
	return list
}

func recordWithTurns(turns ...*wire.Request) *session.Record {
	r := newRecord("s")
	for _, req := range turns {
		r.Begin(req, testStart)
		r.SetLastTurn(req)
		r.AddReply(&wire.Reply{Complete: true, Text: "ok"})
	}
	return r
}

// A system prompt in both lists does not count as a shared item. SharesItemsWith also returns true for a session
// without a turn, and for a request without history.
func TestSharesItemsWithRequiresLastTurnItem(t *testing.T) {
	one := parseChat(t, systemMessage("S"), userMessage("one"))
	for name, tc := range map[string]struct {
		turns []*wire.Request
		next  *wire.Request
		want  bool
	}{
		"a session without a turn":                 {nil, parseChat(t, userMessage("two")), true},
		"the next turn":                            {[]*wire.Request{one}, parseChat(t, systemMessage("S"), userMessage("one"), assistantMessage("ok"), userMessage("two")), true},
		"the same list":                            {[]*wire.Request{one}, one, true},
		"last turn's new item at a later index":    {[]*wire.Request{one}, parseChat(t, userMessage("zero"), assistantMessage("no"), userMessage("one"), userMessage("two")), true},
		"only the system prompt in common":         {[]*wire.Request{one}, parseChat(t, systemMessage("S"), userMessage("two")), false},
		"nothing in common":                        {[]*wire.Request{one}, parseChat(t, userMessage("two"), assistantMessage("ok"), userMessage("three")), false},
		"new item from the turn before the last":   {[]*wire.Request{one, parseChat(t, userMessage("one"), assistantMessage("ok"), userMessage("two"))}, parseChat(t, userMessage("one"), assistantMessage("no"), userMessage("three")), false},
		"the common item before the last 96 items": {[]*wire.Request{one}, parseChat(t, append([]string{userMessage("one")}, userMessages(96)...)...), false},
		"the common item among the last 96 items":  {[]*wire.Request{one}, parseChat(t, append([]string{userMessage("one")}, userMessages(95)...)...), true},
		"a list without the history":               {[]*wire.Request{one}, newContinuation(t, "resp_1", userMessage("two")), true},
	} {
		r := recordWithTurns(tc.turns...)
		if got := r.SharesItemsWith(tc.next); got != tc.want {
			t.Errorf("%s: got SharesItemsWith = %v, want %v", name, got, tc.want)
		}
	}
	withoutItems := newRecord("s") // as after an opted-out turn
	withoutItems.Thread.Turns, withoutItems.Thread.ListHash = 1, 7
	if !withoutItems.SharesItemsWith(one) {
		t.Error("record without item hashes for the last turn: SharesItemsWith = false, want true")
	}
}

// newContinuation returns a request with only the new items, because the provider keeps the history.
func newContinuation(t *testing.T, previous string, items ...string) *wire.Request {
	t.Helper()
	body := `{"previous_response_id":"` + previous + `","input":[`
	for i, item := range items {
		if i > 0 {
			body += ","
		}
		body += item
	}
	req, err := wire.Parse(wire.Responses, []byte(body+"]}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A repeated first message starts a new conversation only if the record has a reply. Otherwise the request is a retry.
// With a conversation object, the API appends the repeated message to the history, so the request is the next turn.
func TestRepeatedFirstMessageAfterReplyStartsConversation(t *testing.T) {
	continueRequest := func(conversation, previous string) *wire.Request {
		req, err := wire.Parse(wire.Responses, fmt.Appendf(nil, `{"conversation":%q,"previous_response_id":%q,"input":"continue"}`, conversation, previous))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	one := parseChat(t, userMessage("one"))
	unanswered := newRecord("s")
	unanswered.Begin(one, testStart)
	unanswered.SetLastTurn(one)
	for name, tc := range map[string]struct {
		r    *session.Record
		next *wire.Request
		want bool
	}{
		"replied, the same message":                        {recordWithTurns(one), one, true},
		"replied, another message":                         {recordWithTurns(one), parseChat(t, userMessage("two")), false},
		"no reply":                                         {unanswered, one, false},
		"a session without a turn":                         {newRecord("s"), one, false},
		"replied, the same words in a conversation object": {recordWithTurns(continueRequest("conv_1", "")), continueRequest("conv_1", ""), false},
		"replied, the same words after the same response":  {recordWithTurns(continueRequest("", "resp_1")), continueRequest("", "resp_1"), true},
		"replied, and a later turn":                        {recordWithTurns(one, parseChat(t, userMessage("one"), assistantMessage("ok"), userMessage("two"))), one, false},
	} {
		if got := tc.r.RepeatsAnsweredList(tc.next); got != tc.want {
			t.Errorf("%s: got RepeatsAnsweredList = %v, want %v", name, got, tc.want)
		}
	}
}

// A sub-agent's first request has the task as the first message, but no reply.
func TestShowsConversationRequiresFirstMessageAndReply(t *testing.T) {
	first, later := parseChat(t, userMessage("the task")), parseChat(t, userMessage("the task"), assistantMessage("ok"), userMessage("two"))
	for name, tc := range map[string]struct {
		next *wire.Request
		want bool
	}{
		"the next turn":                        {parseChat(t, userMessage("the task"), assistantMessage("ok"), userMessage("two"), assistantMessage("ok"), userMessage("three")), true},
		"the first message, a different reply": {parseChat(t, userMessage("the task"), assistantMessage("otherwise"), userMessage("what is worth keeping?")), true},
		"the task without a reply":             {parseChat(t, userMessage("the task"), userMessage("do it")), false},
		"another task":                         {parseChat(t, userMessage("another task"), assistantMessage("ok"), userMessage("more")), false},
		"a reply after the first 96 items":     {parseChat(t, append(append([]string{userMessage("the task")}, userMessages(95)...), assistantMessage("late"))...), false},
		"a reply among the first 96 items":     {parseChat(t, append(append([]string{userMessage("the task")}, userMessages(94)...), assistantMessage("late"))...), true},
		"no user message":                      {parseChat(t, assistantMessage("ok")), false},
	} {
		if got := recordWithTurns(first, later).ShowsConversation(tc.next); got != tc.want {
			t.Errorf("%s: got ShowsConversation = %v, want %v", name, got, tc.want)
		}
	}
	withoutFirstWords := recordWithTurns(first, later)
	withoutFirstWords.Thread.FirstWords = 0
	if withoutFirstWords.ShowsConversation(parseChat(t, assistantMessage("ok"))) {
		t.Error("record without first words: got ShowsConversation = true, want false")
	}
}

// If one of the two records is ambiguous, the merged record is ambiguous.
func TestAdoptMergesPicksMembersAndAmbiguity(t *testing.T) {
	pick := func(slugs ...string) (a trial.Assignment) {
		a.Decided = true
		for _, s := range slugs {
			a.Picks = append(a.Picks, trial.Pick{Slug: s})
		}
		return a
	}
	slugs := func(r *session.Record) (list []string) {
		for i := range r.Assignment.Picks {
			list = append(list, r.Assignment.Picks[i].Slug)
		}
		return list
	}
	for name, tc := range map[string]struct {
		members [2]int // member counts in the local and in the remote record
		want    []string
	}{
		"no members":                   {[2]int{0, 0}, []string{"there"}},
		"members in the local record":  {[2]int{1, 0}, []string{"here", "there"}},
		"members in the remote record": {[2]int{0, 2}, []string{"here", "there"}},
		"members in both records":      {[2]int{3, 2}, []string{"here", "there"}},
	} {
		local, remote := newRecord("s"), newRecord("s")
		local.Assignment, remote.Assignment = pick("here"), pick("there")
		local.Unit.Members, remote.Unit.Members = tc.members[0], tc.members[1]
		local.Adopt(remote)
		if got := fmt.Sprint(slugs(local)); got != fmt.Sprint(tc.want) || local.Unit.Members != max(tc.members[0], tc.members[1]) || local.Assignment.Excluded {
			t.Errorf("%s: got picks %s, %d members, Excluded = %v, want picks %v, %d members, Excluded = false", name, got, local.Unit.Members, local.Assignment.Excluded, tc.want, max(tc.members[0], tc.members[1]))
		}
	}
	for _, ambiguous := range [][2]bool{{true, false}, {false, true}} {
		local, remote := newRecord("s"), newRecord("s")
		local.State.Ambiguous, remote.State.Ambiguous = ambiguous[0], ambiguous[1]
		if local.Adopt(remote); !local.State.Ambiguous || !local.Assignment.Excluded || local.Assignment.ExcludedFor != trial.ExcludedTwin {
			t.Errorf("Ambiguous = %v before Adopt: got Ambiguous = %v, Excluded = %v, ExcludedFor = %q, want Ambiguous and Excluded true, ExcludedFor = %q", ambiguous, local.State.Ambiguous, local.Assignment.Excluded, local.Assignment.ExcludedFor, trial.ExcludedTwin)
		}
	}
}
