package session_test

import (
	"fmt"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/internal/wire"
)

// system returns a system message.
func system(s string) string { return `{"role":"system","content":"` + s + `"}` }

// userMessages returns n user messages.
func userMessages(n int) (list []string) {
	for i := range n {
		list = append(list, userMessage(fmt.Sprintf("filler %d", i)))
	}
	return list
}

// recordWithTurns returns a record with these turns, each of them answered.
func recordWithTurns(turns ...*wire.Request) *session.Record {
	r := recordOf("s")
	for _, req := range turns {
		r.Begin(req, testStart)
		r.SetLastTurn(req)
		r.AddReply(&wire.Reply{Complete: true, Text: "ok"})
	}
	return r
}

// Shares reports whether a request contains an item that was new in the last turn of the session, at any index. A
// system prompt does not count. A session without a turn, and a request without its history, count as a match.
func TestSharesNeedsANewItemOfTheLastTurn(t *testing.T) {
	one := parseChat(t, system("S"), userMessage("one"))
	for name, k := range map[string]struct {
		had  []*wire.Request
		now  *wire.Request
		want bool
	}{
		"a session without a turn": {nil, parseChat(t, userMessage("two")), true},
		"the next turn":            {[]*wire.Request{one}, parseChat(t, system("S"), userMessage("one"), assistantMessage("ok"), userMessage("two")), true},
		"the same list":            {[]*wire.Request{one}, one, true},
		"the new item of the last turn at a later index": {[]*wire.Request{one}, parseChat(t, userMessage("zero"), assistantMessage("no"), userMessage("one"), userMessage("two")), true},
		"only the system text in common":                 {[]*wire.Request{one}, parseChat(t, system("S"), userMessage("two")), false},
		"nothing in common":                              {[]*wire.Request{one}, parseChat(t, userMessage("two"), assistantMessage("ok"), userMessage("three")), false},
		"the new item of the turn before the last":       {[]*wire.Request{one, parseChat(t, userMessage("one"), assistantMessage("ok"), userMessage("two"))}, parseChat(t, userMessage("one"), assistantMessage("no"), userMessage("three")), false},
		"the common item before the last 96 items":       {[]*wire.Request{one}, parseChat(t, append([]string{userMessage("one")}, userMessages(96)...)...), false},
		"the common item among the last 96 items":        {[]*wire.Request{one}, parseChat(t, append([]string{userMessage("one")}, userMessages(95)...)...), true},
		"a list without the history":                     {[]*wire.Request{one}, continued(t, "resp_1", userMessage("two")), true},
	} {
		r := recordWithTurns(k.had...)
		if got := r.Shares(k.now); got != k.want {
			t.Errorf("%s: got Shares = %v, want %v", name, got, k.want)
		}
	}
	bare := recordOf("s") // a stored record without the items of an opted-out turn
	bare.Thread.Turns, bare.Thread.ListHash = 1, 7
	if !bare.Shares(one) {
		t.Error("Shares for a record without hashes of its newest turn = false, want true")
	}
}

// continued returns a request whose history the provider keeps.
func continued(t *testing.T, previous string, items ...string) *wire.Request {
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

// Under one session name, a request with the first words begins another conversation if the first words have an answer.
// Before the answer the request is a retry.
func TestEqualFirstWordsAfterAnAnswerBeginAConversation(t *testing.T) {
	one := parseChat(t, userMessage("one"))
	asked := recordOf("s")
	asked.Begin(one, testStart)
	asked.SetLastTurn(one)
	for name, k := range map[string]struct {
		r    *session.Record
		now  *wire.Request
		want bool
	}{
		"answered, and the same words": {recordWithTurns(one), one, true},
		"answered, and other words":    {recordWithTurns(one), parseChat(t, userMessage("two")), false},
		"not answered":                 {asked, one, false},
		"a session that has no turn":   {recordOf("s"), one, false},
		"answered, and a later turn":   {recordWithTurns(one, parseChat(t, userMessage("one"), assistantMessage("ok"), userMessage("two"))), one, false},
	} {
		if got := k.r.Begins(k.now); got != k.want {
			t.Errorf("%s: got Begins = %v, want %v", name, got, k.want)
		}
	}
}

// ShowsConversation reports whether a request continues the list of the session, or begins with the first words and has
// an answer. A sub-agent sends the task without an answer.
func TestShowsNeedsFirstWordsAndAnAnswer(t *testing.T) {
	first, later := parseChat(t, userMessage("the task")), parseChat(t, userMessage("the task"), assistantMessage("ok"), userMessage("two"))
	for name, k := range map[string]struct {
		now  *wire.Request
		want bool
	}{
		"the next turn":                      {parseChat(t, userMessage("the task"), assistantMessage("ok"), userMessage("two"), assistantMessage("ok"), userMessage("three")), true},
		"the first words and another answer": {parseChat(t, userMessage("the task"), assistantMessage("otherwise"), userMessage("what is worth keeping?")), true},
		"the task without an answer":         {parseChat(t, userMessage("the task"), userMessage("do it")), false},
		"another task":                       {parseChat(t, userMessage("another task"), assistantMessage("ok"), userMessage("more")), false},
		"an answer after the first 96 items": {parseChat(t, append(append([]string{userMessage("the task")}, userMessages(95)...), assistantMessage("late"))...), false},
		"an answer among the first 96 items": {parseChat(t, append(append([]string{userMessage("the task")}, userMessages(94)...), assistantMessage("late"))...), true},
		"no words at all":                    {parseChat(t, assistantMessage("ok")), false},
	} {
		if got := recordWithTurns(first, later).ShowsConversation(k.now); got != k.want {
			t.Errorf("%s: got ShowsConversation = %v, want %v", name, got, k.want)
		}
	}
	wordless := recordWithTurns(first, later)
	wordless.Thread.FirstWords = 0
	if wordless.ShowsConversation(parseChat(t, assistantMessage("ok"))) {
		t.Error("ShowsConversation for a record without first words = true, want false")
	}
}

// Adopt takes the picks (the chosen lessons) of the other replica's record. For a session with members, the picks of
// both records are kept. A session that is ambiguous in one of the records stays ambiguous.
func TestAdoptMergesTheRecordOfAReplica(t *testing.T) {
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
	for name, k := range map[string]struct {
		members [2]int // numbers of members in this record and in the other record
		want    []string
	}{
		"no members":                  {[2]int{0, 0}, []string{"there"}},
		"members in this record":      {[2]int{1, 0}, []string{"here", "there"}},
		"members in the other record": {[2]int{0, 2}, []string{"here", "there"}},
		"members in both records":     {[2]int{3, 2}, []string{"here", "there"}},
	} {
		local, remote := recordOf("s"), recordOf("s")
		local.Assignment, remote.Assignment = pick("here"), pick("there")
		local.Unit.Members, remote.Unit.Members = k.members[0], k.members[1]
		local.Adopt(remote)
		if got := fmt.Sprint(slugs(local)); got != fmt.Sprint(k.want) || local.Unit.Members != max(k.members[0], k.members[1]) || local.Assignment.Excluded {
			t.Errorf("%s: got picks %s, %d members, excluded %v, want %v, %d, false", name, got, local.Unit.Members, local.Assignment.Excluded, k.want, max(k.members[0], k.members[1]))
		}
	}
	for _, doubted := range [][2]bool{{true, false}, {false, true}} {
		local, remote := recordOf("s"), recordOf("s")
		local.State.Doubted, remote.State.Doubted = doubted[0], doubted[1]
		if local.Adopt(remote); !local.State.Doubted || !local.Assignment.Excluded || local.Assignment.ExcludedFor != trial.ExcludedTwin {
			t.Errorf("doubted %v before Adopt: got doubted %v and excluded %v for %q, want both true for %q", doubted, local.State.Doubted, local.Assignment.Excluded, local.Assignment.ExcludedFor, trial.ExcludedTwin)
		}
	}
}
