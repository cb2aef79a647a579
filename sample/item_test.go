package sample

import (
	"encoding/json"
	"testing"

	"precept/wire"
)

// TestSamplesReadWordsAsMatchingDoes: what a lesson is matched against and what a sample calls the
// user's words is one text, whatever an agent wraps around it.
func TestSamplesReadWordsAsMatchingDoes(t *testing.T) {
	for _, content := range []string{
		`"fix it"`, `"<system-reminder>be brief</system-reminder>\nfix it"`, `"<ide_selection>x</ide_selection>fix it"`, `"<task-notification>done</task-notification>"`,
		`"Lessons from past experience:\n- [a] b\nEnd of lessons.\n\nfix it"`, `"\"fix it\""`, `"# AGENTS.md instructions for /x\n<INSTRUCTIONS>y</INSTRUCTIONS>"`,
		`[{"type":"text","text":"<bash-input>ls</bash-input>"},{"type":"text","text":"fix it"},{"type":"text","text":"and test it"}]`, `"Observation: 3 files"`,
	} {
		raw := `{"role":"user","content":` + content + `}`
		m, ok := decodeItem(json.RawMessage(raw))
		req, err := wire.Parse(wire.Chat, []byte(`{"messages":[`+raw+`]}`))
		if err != nil || !ok {
			t.Fatal(err, ok)
		}
		if want := req.Item(0).Words; m.words != want {
			t.Errorf("%s: the sample says %q, matching %q", content, m.words, want)
		}
	}
}

func TestChoicesAreTold(t *testing.T) {
	c := newScript()
	c.turn(Reply{Text: "one", Choices: 3}, say("user", "count"))
	for _, s := range Build(c.s) {
		if s.Meta["choices"] != 3 || s.Output["response_text"] != "one" {
			t.Errorf("%+v", s)
		}
	}
	e := c.s.Exchanges[0]
	back, err := DecodeExchange(e.AppendJSON(nil))
	if err != nil || back.Reply.Choices != 3 {
		t.Errorf("%+v %v", back.Reply, err)
	}
	c = newScript()
	c.turn(Reply{Text: "one"}, say("user", "count"))
	if _, told := Build(c.s)[0].Meta["choices"]; told {
		t.Error("a reply of one choice tells of choices")
	}
}
