package sample_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"precept/internal/sample"
)

func TestSealKeepsTheFirstEncoding(t *testing.T) {
	x := sample.Exchange{ID: "a", New: []json.RawMessage{[]byte("{ }")}, Outcome: sample.Complete}
	first := x.Seal()
	x.ID = "b"
	if again := x.Encode(); string(again.Data) != string(first.Data) || string(again.Items) != "[{ }]" {
		t.Errorf("%s %s", again.Data, again.Items)
	}
	back, err := first.Decode()
	if err != nil || back.ID != "a" || len(back.New) != 1 || string(back.New[0]) != "{ }" {
		t.Errorf("%+v %v", back, err)
	}
}

func TestPromptAndToolsRoundTrip(t *testing.T) {
	for _, x := range []sample.Exchange{
		{System: json.RawMessage(`"Be kind."`), New: []json.RawMessage{[]byte(`{"role":"user"}`)}},
		{Tools: json.RawMessage(`[{"name":"ls"}]`)},
		{System: json.RawMessage(`[{"type":"text","text":"a , b"}]`), Tools: json.RawMessage(`[]`), New: []json.RawMessage{[]byte(`[null,null]`)}},
		{New: []json.RawMessage{[]byte(`[null,null]`)}}, // an item in the form of a prompt
	} {
		back, err := x.Encode().Decode()
		if err != nil || string(back.System) != string(x.System) || string(back.Tools) != string(x.Tools) || len(back.New) != len(x.New) {
			t.Errorf("%s %s %s comes back as %s %s %s, %v", x.System, x.Tools, x.New, back.System, back.Tools, back.New, err)
		}
	}
}

func FuzzItems(f *testing.F) {
	f.Add([]byte(`{"a" : 1.0}`), []byte(`"x"`))
	f.Add([]byte(`1],[2`), []byte("\xff"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		items := []json.RawMessage{a, b}
		back := func() []json.RawMessage {
			x := sample.Exchange{New: items}
			got, err := x.Encode().Decode()
			if err != nil {
				t.Fatal(err)
			}
			return got.New
		}()
		for _, it := range back {
			if !json.Valid(it) {
				t.Errorf("%q comes back as %q", items, it)
			}
		}
		trimmed := func(b []byte) bool { return json.Valid(b) && strings.TrimSpace(string(b)) == string(b) }
		if trimmed(a) && trimmed(b) && !slices.EqualFunc(back, items, func(x, y json.RawMessage) bool { return string(x) == string(y) }) {
			t.Errorf("%q comes back as %q", items, back)
		}
	})
}
