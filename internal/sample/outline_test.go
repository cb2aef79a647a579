package sample_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/wire"
)

// samplesJSON returns the samples of a session as JSON.
func samplesJSON(t *testing.T, s sample.Session) string {
	t.Helper()
	text, err := json.MarshalIndent(sample.Build(s), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// outlined returns the session with its exchanges from outlines; ok is false if an exchange has no place
// in the outlines. decoded reports that the turns have decoded the items.
func outlined(t *testing.T, s sample.Session, decoded bool) (out sample.Session, ok bool) {
	t.Helper()
	var all sample.Outlines
	var list []json.RawMessage
	texts := false
	for i := range s.Exchanges {
		x := s.Exchanges[i]
		x.New = slices.Clone(x.New)
		if list = append(list[:min(max(x.NewFrom, 0), len(list))], x.New...); decoded && x.Turn > 1 && x.NewFrom+len(x.New) == len(list) {
			req, err := wire.Parse(wire.DialectNamed(x.Dialect), []byte(`{"messages":[`+string(bytes.Join(rawItems(list), []byte(",")))+`]}`))
			if err != nil {
				t.Fatal(err)
			}
			items := make([]*wire.Item, len(x.New))
			for k := range items {
				items[k] = req.Item(x.NewFrom + k)
			}
			x.Read(items)
		}
		x.Redact(redact.New(true))
		texts = x.Outline(s.Failing, texts) || texts
		if x.New = nil; !all.Add(&x) || !all.Add(&x) { // a repeated delivery
			return s, false
		}
	}
	out = s
	out.Exchanges = all.Exchanges(s.Tenant, s.ID)
	return out, all.Len() == len(s.Exchanges)
}

func rawItems(list []json.RawMessage) (out [][]byte) {
	for _, item := range list {
		out = append(out, item)
	}
	return out
}

// stored returns the session as the store has the exchanges, redacted.
func stored(t *testing.T, s sample.Session) sample.Session {
	t.Helper()
	s.Exchanges = slices.Clone(s.Exchanges)
	for i := range s.Exchanges {
		x := s.Exchanges[i]
		x.New = slices.Clone(x.New)
		x.Redact(redact.New(true))
		x, err := x.Encode().Decode()
		if err != nil {
			t.Fatal(err)
		}
		s.Exchanges[i] = x
	}
	return s
}

// judged gives the exchanges after the first the verdicts of their turns.
func judged(s sample.Session) sample.Session {
	for i := range s.Exchanges[1:] {
		x := &s.Exchanges[i+1]
		v := &sample.Verdicts{}
		for _, it := range (wire.Kept[json.RawMessage]{Dialect: wire.DialectNamed(x.Dialect), Items: x.New, From: x.NewFrom}).Read() {
			for _, r := range it.Results {
				if s.Failing("", "", r.Text, r.IsError) {
					v.Failed = append(v.Failed, v.Results)
				}
				v.Results++
			}
		}
		if v.Results > 0 {
			x.Verdicts = v
		}
	}
	return s
}

// assistant returns an item of the model with calls of bash.
func assistant(ids ...string) string {
	made := make([]string, len(ids))
	for i, id := range ids {
		made[i] = fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"make\"}"}}`, id)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(made, ",") + `]}`
}

func TestOutlinesBuildTheSamplesOfTheStoredExchanges(t *testing.T) {
	long := strings.Repeat("a long text é ", 1000)
	work := workSession()
	sessions := map[string]struct {
		write func(c *script)
		held  bool // the session closes from outlines
	}{
		"work":  {func(c *script) { c.s = work }, true},
		"calls": {func(c *script) { c.s = nothingSession() }, true},
		"long texts": {func(c *script) {
			c.turn(calls("a", "bash", `{"command":"make"}`), messageJSON("user", long))
			c.turn(calls("b", "bash", `{"command":"make all"}`), answer("a", "error "+long))
			c.turn(sample.Reply{Text: " " + long + " "}, answer("b", long))
			c.turn(sample.Reply{Text: "bye"}, messageJSON("user", "thanks"))
		}, true},
		"a history at the first turn": {func(c *script) {
			c.turn(calls("c", "bash", `{"command":"make c"}`), messageJSON("user", "go"), assistant("a", "b"), answer("b", "made"), answer("a", "error 1"), answer("a", "repeated"))
			c.turn(sample.Reply{Text: "done"}, answer("c", "made c"))
		}, true},
		"an answer without the last reply": {func(c *script) {
			c.turn(calls("a", "bash", `{"command":"make a"}`), messageJSON("user", "go"))
			c.echo = nil
			c.turn(calls("b", "bash", `{"command":"make a b"}`), answer("a", "error: no a"))
			c.echo = nil
			c.turn(sample.Reply{Text: "done"}, answer("b", "ok"))
		}, true},
		"an edited call": {func(c *script) {
			c.turn(calls("a", "bash", `{"command":"make a"}`), messageJSON("user", "go"))
			c.echo = nil
			c.turn(calls("b", "bash", `{"command":"make b"}`), assistant("a"), answer("a", "error: no a"))
			c.turn(sample.Reply{Text: "done"}, answer("b", "ok"))
		}, true},
		"a call without an id": {func(c *script) {
			c.turn(calls("", "bash", `{"command":"make a"}`), messageJSON("user", "go"))
			c.turn(sample.Reply{Text: "done"}, answer("", "ok"))
		}, true},
		"secrets": {func(c *script) {
			c.turn(calls("a", "bash", `{"command":"make"}`), messageJSON("user", "write to ann@example.com"))
			c.turn(calls("b", "bash", `{"command":"make all"}`), answer("a", "error: bob@example.com"))
			c.turn(sample.Reply{Text: "Sent to bob@example.com."}, answer("b", "mail to bob@example.com"))
		}, true},
		"calls in text": {func(c *script) {
			c.turn(sample.Reply{Text: "Thought: look\nAction: ls\nAction Input: ."}, messageJSON("user", "go"))
			c.turn(sample.Reply{Text: "done"}, messageJSON("user", "Observation: a.go"))
		}, false},
		"a late error after results without text": {func(c *script) {
			c.turn(sample.Reply{Calls: []sample.Call{{ID: "a", Name: "bash", Args: "make a"}, {ID: "b", Name: "bash", Args: "make a b"}}}, messageJSON("user", "go"))
			c.turn(sample.Reply{Text: "one"}, answer("b", "made"))
			c.turn(sample.Reply{Text: "done"}, answer("a", "error 1"))
		}, false},
		"a cut stream": {func(c *script) {
			c.turn(sample.Reply{Text: "do"}, messageJSON("user", "go")).Outcome = sample.Incomplete
		}, false},
		"a text that is not UTF-8": {func(c *script) { c.turn(sample.Reply{Text: "do\xff"}, messageJSON("user", "go")) }, false},
		"a turn that is out of order": {func(c *script) {
			c.turn(sample.Reply{Text: "one"}, messageJSON("user", "go"))
			c.turn(sample.Reply{Text: "two"}, messageJSON("user", "on")).Turn = 3
			c.turn(sample.Reply{Text: "three"}, messageJSON("user", "and on")).Turn = 2
		}, false},
	}
	for name, k := range sessions {
		c := newScript()
		k.write(c)
		if c.s.Failing == nil {
			c.s.Failing = failing
		}
		s := judged(c.s)
		want := samplesJSON(t, stored(t, s))
		for _, decoded := range []bool{false, true} {
			got, ok := outlined(t, s, decoded)
			if ok != k.held {
				t.Errorf("%s, items decoded %t: closes from outlines: %t, want %t", name, decoded, ok, k.held)
			}
			if text := samplesJSON(t, got); ok && text != want {
				t.Errorf("%s, items decoded %t: got samples\n%s\nwant\n%s", name, decoded, text, want)
			}
		}
	}
}

// A tool turn is a small part of its stored exchange.
func TestOutlinesAreSmall(t *testing.T) {
	c := newScript()
	c.s.Failing = failing
	c.turn(calls("c0", "bash", `{"command":"make"}`), messageJSON("user", "go"))
	for i := range 50 {
		c.turn(calls(fmt.Sprint("c", i+1), "bash", `{"command":"make"}`), answer(fmt.Sprint("c", i), strings.Repeat("a line of the output\n", 100)))
	}
	var all sample.Outlines
	s := judged(c.s)
	for i := range s.Exchanges {
		s.Exchanges[i].Outline(failing, false)
		all.Add(&s.Exchanges[i])
	}
	if per := all.Size() / max(all.Len(), 1); all.Len() != 51 || per > 400 {
		t.Errorf("%d outlines of %d bytes each, want 51 of at most 400", all.Len(), per)
	}
}
