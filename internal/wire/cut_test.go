package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// cutText removes the first occurrence of text from each passage in Request.Head. Head has the passages before the
// model's first answer.
func cutText(t *testing.T, d Dialect, body, text string) string {
	t.Helper()
	r, err := Parse(d, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	var cuts []Cut
	for _, p := range r.Head() {
		if at := strings.Index(p.Text, text); at >= 0 {
			cuts = append(cuts, r.Cuts(&p, at, at+len(text))...)
		}
	}
	out, err := r.Splice(nil, nil, cuts...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestCutRemovesTextInEachDialect(t *testing.T) {
	for _, tc := range []struct {
		name            string
		dialect         Dialect
		body, cut, want string
	}{
		{"chat system", Chat, `{"messages":[{"role":"system","content":"a\n## B\nx\n"},{"role":"user","content":"go"}]}`, "## B\nx\n", `{"messages":[{"role":"system","content":"a\n"},{"role":"user","content":"go"}]}`},
		{"responses instructions", Responses, `{"instructions": "a\n- b\n", "input":"go"}`, "- b\n", `{"instructions": "a\n", "input":"go"}`},
		{"responses developer item", Responses, `{"input":[{"role":"developer","content":[{"type":"input_text","text":"a- b"}]},{"role":"user","content":"go"}]}`, "- b", `{"input":[{"role":"developer","content":[{"type":"input_text","text":"a"}]},{"role":"user","content":"go"}]}`},
		{"messages system parts", Messages, `{"system":[{"type":"text","text":"x"},{"type":"text","text":"a- b"}],"messages":[{"role":"user","content":"go"}]}`, "- b", `{"system":[{"type":"text","text":"x"},{"type":"text","text":"a"}],"messages":[{"role":"user","content":"go"}]}`},
		{"a first user message", Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"- b\nc"},{"type":"text","text":"go"}]}]}`, "- b\n", `{"messages":[{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"go"}]}]}`},
		{"a text across two parts", Messages, `{"system":[{"type":"text","text":"a- b"},{"type":"text","text":"c- d"}],"messages":[{"role":"user","content":"go"}]}`, "- bc", `{"system":[{"type":"text","text":"a"},{"type":"text","text":"- d"}],"messages":[{"role":"user","content":"go"}]}`},
		{"escapes", Chat, `{"messages":[{"role":"system","content":"\u0061\r\n\u002d \"b\" \ud83d\ude00 \ud83d \u00e9\t\/\r\nc"}]}`, "- \"b\" 😀 \ufffd é\t/\r\n", `{"messages":[{"role":"system","content":"\u0061\r\nc"}]}`},
		{"invalid UTF-8", Chat, "{\"messages\":[{\"role\":\"system\",\"content\":\"\xff- b\xfe\"}]}", "- b", "{\"messages\":[{\"role\":\"system\",\"content\":\"\xff\xfe\"}]}"},
		{"a reply ends the head", Chat, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"- b"},{"role":"user","content":"- b"}]}`, "- b", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"- b"},{"role":"user","content":"- b"}]}`},
		{"aider's read-only files after an example", Chat, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"- b"},{"role":"user","content":"Here are some READ ONLY files, provided for your reference.\n- b"},{"role":"user","content":"- b"}]}`, "- b", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"- b"},{"role":"user","content":"Here are some READ ONLY files, provided for your reference.\n"},{"role":"user","content":"- b"}]}`},
		{"a result ends the head", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"- b"},{"type":"text","text":"- b"}]}]}`, "- b", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"- b"},{"type":"text","text":"- b"}]}]}`},
	} {
		if got := cutText(t, tc.dialect, tc.body, tc.cut); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// restore puts the bytes that were cut from body back into shortened.
func restore(body, shortened []byte, cuts []Cut) []byte {
	var restored []byte
	from := 0 // in body
	for _, c := range sortedCuts(cuts) {
		kept := c.From - from
		restored = append(append(restored, shortened[:kept]...), body[c.From:c.To]...)
		shortened, from = shortened[kept:], c.To
	}
	return append(restored, shortened...)
}

// assertCut removes a range from one passage. The shortened body must be JSON and contain the passage without the
// range. restore must return the original body.
func assertCut(t testing.TB, r *Request, passage, from, to int) []Cut {
	t.Helper()
	head := r.Head()
	if len(head) == 0 {
		return nil
	}
	p := &head[passage%len(head)]
	from, to = from%(len(p.Text)+1), to%(len(p.Text)+1)
	if from > to {
		from, to = to, from
	}
	for from > 0 && from < len(p.Text) && !utf8.RuneStart(p.Text[from]) {
		from--
	}
	for to < len(p.Text) && !utf8.RuneStart(p.Text[to]) {
		to++
	}
	cuts := r.Cuts(p, from, to)
	out, err := r.Splice(nil, nil, cuts...)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out) && json.Valid(r.Body) {
		t.Fatalf("cut body is not valid JSON: %s", out)
	}
	if restored := restore(r.Body, out, cuts); !bytes.Equal(restored, r.Body) {
		t.Fatalf("restored body: got %s, want %s", restored, r.Body)
	}
	want := p.Text[:from] + p.Text[to:]
	second, err := Parse(r.Dialect, out)
	if err != nil {
		t.Fatalf("Parse(cut body %s) error = %v", out, err)
	}
	texts := second.Head()
	if want == "" { // no empty passages
		if len(texts) != len(head)-1 {
			t.Fatalf("cut body: got %d passages, want %d", len(texts), len(head)-1)
		}
		return cuts
	}
	if !utf8.ValidString(want) || strings.ContainsRune(want, utf8.RuneError) {
		return cuts // bytes before and after the cut can form one character
	}
	if got := texts[passage%len(head)].Text; got != want {
		t.Fatalf("cut passage: got %q, want %q", got, want)
	}
	return cuts
}

func TestSpliceAppliesCutsAndEdits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := requestGenerator{rt}
		d, body := g.body()
		r, err := Parse(d, []byte(body))
		if err != nil {
			rt.Fatal(err)
		}
		n := rapid.IntRange(0, 200)
		cuts := assertCut(t, r, n.Draw(rt, "passage"), n.Draw(rt, "from"), n.Draw(rt, "to"))
		cuts = append(cuts, assertCut(t, r, n.Draw(rt, "passage"), n.Draw(rt, "from"), n.Draw(rt, "to"))...)

		// One Splice call with edits and cuts must return the same body as the edits followed by the cuts.
		edits := g.edits(r, rapid.OneOf(rapid.Just(block), rapid.String()))
		out, err := r.Splice(nil, edits, cuts...)
		if err != nil {
			rt.Fatal(err)
		}
		edited, err := r.Splice(nil, edits)
		if err != nil {
			rt.Fatal(err)
		}
		if want := applyCuts(r, edited, edits, cuts); !bytes.Equal(out, want) {
			rt.Fatalf("edits %+v, cuts %v on %s:\n got %s\nwant %s", edits, cuts, body, out, want)
		}
	})
}

// applyCuts removes cuts from a body that already has the edits. Each cut moves by the number of bytes that were
// inserted before it.
func applyCuts(r *Request, edited []byte, edits []Edit, cuts []Cut) []byte {
	spots, _ := r.insertions(edits)
	list := sortedCuts(cuts)
	for _, cut := range slices.Backward(list) {
		shift := 0
		for _, s := range spots {
			if s.where.offset > cut.From {
				break
			}
			shift += len(s.where.appendTo(nil, s.texts))
			if s.where.form == replacedNull {
				shift++
			}
		}
		edited = append(bytes.Clone(edited[:cut.From+shift]), edited[cut.To+shift:]...)
	}
	return edited
}

func FuzzCut(f *testing.F) {
	f.Add(uint8(0), []byte(`{"messages":[{"role":"system","content":"a\n## \u00e9 \ud83d\ude00\r\nx"},{"role":"user","content":[{"type":"text","text":"go"},{"type":"text","text":"on"}]}]}`), 0, 2, 9)
	f.Add(uint8(1), []byte(`{"instructions":"a","input":[{"role":"developer","content":[{"type":"input_text","text":"b\\"}]}]}`), 1, 0, 2)
	f.Add(uint8(2), []byte(`{"system":[{"type":"text","text":"\ud83d\ud83d\ude00"}],"messages":[{"role":"user","content":"go"}]}`), 0, 3, 7)
	f.Fuzz(func(t *testing.T, dialect uint8, body []byte, passage, from, to int) {
		r, err := Parse(Dialect(1+dialect%3), body)
		if err != nil || passage < 0 || from < 0 || to < 0 {
			return
		}
		assertCut(t, r, passage, from, to)
	})
}
