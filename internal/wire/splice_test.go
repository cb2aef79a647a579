package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// block is a block of lessons. escaped is the same block in a JSON string.
const block = "Lessons from past experience:\n- [a] b <c> \"d\"\n  | e\\f\nEnd of lessons.\n\n"

const escaped = `Lessons from past experience:\n- [a] b <c> \"d\"\n  | e\\f\nEnd of lessons.\n\n`

func TestSpliceInEachDialect(t *testing.T) {
	for _, tc := range []struct {
		name        string
		dialect     Dialect
		body        string
		item, block int // as in Edit
		want        string
	}{
		{
			"chat string", Chat, `{"messages":[{"role":"user","content": "go"}]}`, 0, -1,
			`{"messages":[{"role":"user","content": "` + escaped + `go"}]}`,
		},
		{
			"chat empty string", Chat, `{"messages":[{"role":"user","content":""}]}`, 0, -1,
			`{"messages":[{"role":"user","content":"` + escaped + `"}]}`,
		},
		{
			"duplicate role and content, last wins", Chat,
			`{"messages":[{"role":"assistant","content":"a","role":"user","content":"go"}]}`, 0, -1,
			`{"messages":[{"role":"assistant","content":"a","role":"user","content":"` + escaped + `go"}]}`,
		},
		{
			"chat parts", Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"text","text":"b"},{"type":"image_url"}]}]}`, 0, -1,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}, {"type":"text","text":"` + escaped + `"},{"type":"text","text":"b"},{"type":"image_url"}]}]}`,
		},
		{
			"chat parts with a reminder after the user text", Chat,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"<system-reminder>r</system-reminder>"}]}]}`, 0, -1,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"` + escaped + `"},{"type":"text","text":"a"},{"type":"text","text":"<system-reminder>r</system-reminder>"}]}]}`,
		},
		{
			"chat tool string", Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":"out"}]}`, 0, 0,
			`{"messages":[{"role":"tool","tool_call_id":"c","content":"` + escaped + `out"}]}`,
		},
		{
			"chat tool parts", Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"out"}]}]}`, 0, 0,
			`{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"` + escaped + `"},{"type":"text","text":"out"}]}]}`,
		},
		{
			"chat tool, empty array", Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":[ ]}]}`, 0, 0,
			`{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"` + escaped + `"} ]}]}`,
		},
		{"responses input", Responses, `{"input":"go"}`, 0, -1, `{"input":"` + escaped + `go"}`},
		{
			"responses parts", Responses, `{"input":[{"role":"user","content":[{"text":"go","type":"input_text"}]}]}`, 0, -1,
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"` + escaped + `"},{"text":"go","type":"input_text"}]}]}`,
		},
		{
			"responses output", Responses, `{"input":[{"type":"function_call_output","call_id":"c","output":"out"}]}`, 0, 0,
			`{"input":[{"type":"function_call_output","call_id":"c","output":"` + escaped + `out"}]}`,
		},
		{
			"responses custom output parts", Responses, `{"input":[{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_image"}]}]}`, 0, 0,
			`{"input":[{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"` + escaped + `"},{"type":"input_image"}]}]}`,
		},
		{
			"messages string", Messages, `{"messages":[{"role":"user","content":"go"}]}`, 0, -1,
			`{"messages":[{"role":"user","content":"` + escaped + `go"}]}`,
		},
		{
			"messages text after results", Messages,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"},{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}]}]}`, 0, -1,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"},{"type":"text","text":"` + escaped + `"},{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}]}]}`,
		},
		{
			"messages result string", Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"w"},{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`, 0, 1,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"w"},{"type":"tool_result","tool_use_id":"t","content":"` + escaped + `x"}]}]}`,
		},
		{
			"messages result parts", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image"}]}]}]}`, 0, 0,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"` + escaped + `"},{"type":"image"}]}]}]}`,
		},
		{
			"chat system", Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"go"}]}`, System, -1,
			`{"messages":[{"role":"system","content":"s` + escaped + `"},{"role":"user","content":"go"}]}`,
		},
		{
			"chat without system", Chat, `{"messages":[ {"role":"user","content":"go"}]}`, System, -1,
			`{"messages":[ {"role":"system","content" :"` + escaped + `"},{"role":"user","content":"go"}]}`,
		},
		{"responses instructions", Responses, `{"instructions":"s","input":"go"}`, System, -1, `{"instructions":"s` + escaped + `","input":"go"}`},
		{
			"responses developer", Responses, `{"input":[{"role":"developer","content":[{"type":"input_text","text":"s"} ]},{"role":"user","content":"go"}]}`, System, -1,
			`{"input":[{"role":"developer","content":[{"type":"input_text","text":"s"},{"type":"input_text","text":"` + escaped + `"} ]},{"role":"user","content":"go"}]}`,
		},
		{"responses without system", Responses, ` { "input":"go"}`, System, -1, ` { "instructions" :"` + escaped + `","input":"go"}`},
		{
			"messages system parts", Messages, `{"system":[{"type":"text","text":"s","cache_control":{}}],"messages":[{"role":"user","content":"go"}]}`, System, -1,
			`{"system":[{"type":"text","text":"s","cache_control":{}},{"type":"text","text":"` + escaped + `"}],"messages":[{"role":"user","content":"go"}]}`,
		},
		{
			"messages system, empty array", Messages, `{"system":[ ],"messages":[{"role":"user","content":"go"}]}`, System, -1,
			`{"system":[{"type":"text","text":"` + escaped + `"} ],"messages":[{"role":"user","content":"go"}]}`,
		},
		{
			"messages without system", Messages, `{"messages":[{"role":"system","content":"x"}]}`, System, -1,
			`{"system" :"` + escaped + `","messages":[{"role":"system","content":"x"}]}`,
		},
		{
			"responses shell output", Responses, `{"input":[{"type":"shell_call_output","call_id":"c","output":[{"stderr":"","stdout":"x"},{"stdout":"y"}]}]}`, 0, 0,
			`{"input":[{"type":"shell_call_output","call_id":"c","output":[{"stderr":"","stdout":"` + escaped + `x"},{"stdout":"y"}]}]}`,
		},
		{
			"responses patch output", Responses, `{"input":[{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"x"}]}`, 0, 0,
			`{"input":[{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"` + escaped + `x"}]}`,
		},
		{
			"messages result, null", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content": null }]}]}`, 0, 0,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content": "` + escaped + `\u000anull" }]}]}`,
		},
		{
			"chat result, null", Chat, `{"messages":[{"role":"tool","tool_call_id":"t","content":null}]}`, 0, 0,
			`{"messages":[{"role":"tool","tool_call_id":"t","content":"` + escaped + `\u000anull"}]}`,
		},
		{
			"messages result without content", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`, 0, 0,
			`{"messages":[{"role":"user","content":[{"content" :"` + escaped + `","type":"tool_result","tool_use_id":"t"}]}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustParse(t, tc.dialect, tc.body)
			edits := []Edit{{tc.item, tc.block, block}}
			got, err := r.Splice([]byte("dst:"), edits)
			if err != nil || string(got) != "dst:"+tc.want {
				t.Fatalf("Splice: error %v\n got %s\nwant %s", err, got, tc.want)
			}
			restored, err := Strip(tc.dialect, got[4:], edits)
			if err != nil || string(restored) != tc.body {
				t.Fatalf("Strip: error %v\n got %s\nwant %s", err, restored, tc.body)
			}
		})
	}
}

// Splice writes a new member as "system" :"x". If the client's member has the same space, Strip cannot distinguish the
// two.
func TestSpliceRejectsPlacesWithoutText(t *testing.T) {
	for _, tc := range []struct {
		name        string
		dialect     Dialect
		body        string
		item, block int // as in Edit
	}{
		{"null system", Messages, `{"system":null,"messages":[{"role":"user","content":"a"}]}`, System, -1},
		{"system with a space before the colon", Messages, `{"system" :"","messages":[{"role":"user","content":"a"}]}`, System, -1},
		{"instructions with a space before the colon", Responses, `{"instructions" :"x","input":"a"}`, System, -1},
		{"system message with a space before the colon", Chat, `{"messages":[{"role":"system","content" :"x"}]}`, System, -1},
		{"system message without content", Chat, `{"messages":[{"role":"system"}]}`, System, -1},
		{"no such item", Chat, `{"messages":[{"role":"user","content":"a"}]}`, 1, -1},
		{"negative item", Chat, `{"messages":[{"role":"user","content":"a"}]}`, -1, -1},
		{"assistant message", Chat, `{"messages":[{"role":"assistant","content":"a"}]}`, 0, -1},
		{"system message as an item", Chat, `{"messages":[{"role":"system","content":"a"}]}`, 0, -1},
		{"null content", Chat, `{"messages":[{"role":"user","content":null}]}`, 0, -1},
		{"no text part", Chat, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 0, -1},
		{"tool message text", Chat, `{"messages":[{"role":"tool","content":"a"}]}`, 0, -1},
		{"result in a user message", Chat, `{"messages":[{"role":"user","content":"a"}]}`, 0, 0},
		{"numeric result", Chat, `{"messages":[{"role":"tool","content":7}]}`, 0, 0},
		{"screenshot result", Responses, `{"input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}]}`, 0, 0},
		{"shell output without text", Responses, `{"input":[{"type":"shell_call_output","call_id":"c","output":[{"stderr":"x"}]}]}`, 0, 0},
		{"object as result", Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":{"a":"b"}}]}`, 0, 0},
		{"unknown item type", Responses, `{"input":[{"type":"mystery","role":"user","content":"a"}]}`, 0, -1},
		{"call item", Responses, `{"input":[{"type":"function_call","call_id":"c","arguments":"{}"}]}`, 0, 0},
		{"text only before the results", Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"tool_result","tool_use_id":"t"}]}]}`, 0, -1},
		{"block is text", Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, 0, 0},
		{"no such block", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`, 0, 1},
		{"numeric result content", Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":7}]}]}`, 0, 0},
		{"content with a space before the colon", Messages, `{"messages":[{"role":"user","content":[{"content" :"","type":"tool_result","tool_use_id":"t"}]}]}`, 0, 0},
		{"assistant message with parts", Messages, `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]}]}`, 0, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := mustParse(t, tc.dialect, tc.body)
			if got, err := r.Splice([]byte("dst"), []Edit{{tc.item, tc.block, "x"}}); err == nil || string(got) != "dst" {
				t.Errorf("Splice = %s, error %v, want dst unchanged and an error", got, err)
			}
			if tc.item == 0 {
				for _, res := range r.Item(0).Results {
					if _, _, ok := r.Find(r.AnchorAt(0, res.CallID)); ok && res.Block == tc.block {
						t.Errorf("result %q: Find(anchor) = true, want false", res.CallID)
					}
				}
				if tc.block < 0 && r.Item(0).HasText {
					t.Error("HasText = true, want false")
				}
			}
		})
	}
}

func TestSpliceKeepsEditOrderAtSamePlace(t *testing.T) {
	r := mustParse(t, Chat, `{"messages":[{"role":"user","content":"w"},{"role":"user","content":[{"type":"text","text":"w"}]},{"role":"tool","content":[]}]}`)
	edits := []Edit{{2, 0, "e"}, {1, -1, "a"}, {0, -1, "c"}, {1, -1, "b"}, {0, -1, "d"}, {0, -1, ""}, {2, 0, "f"}}
	got, err := r.Splice(nil, edits)
	want := `{"messages":[{"role":"user","content":"cdw"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"w"}]},` +
		`{"role":"tool","content":[{"type":"text","text":"e"},{"type":"text","text":"f"}]}]}`
	if err != nil || string(got) != want {
		t.Fatalf("Splice: error %v\n got %s\nwant %s", err, got, want)
	}
}

func TestStripRejectsAbsentText(t *testing.T) {
	body := []byte(`{"messages":[{"role":"user","content":"words"},{"role":"tool","content":[]},{"role":"user","content":[{"type":"text","text":"w"}]}]}`)
	for _, e := range []Edit{{0, -1, "other"}, {1, 0, "x"}, {2, -1, "x"}, {3, -1, "x"}, {0, 0, "words"}} {
		if out, err := Strip(Chat, body, []Edit{e}); err == nil {
			t.Errorf("Strip(%+v) = %s, want an error", e, out)
		}
	}
	if _, err := Strip(Chat, body[1:], []Edit{{0, -1, "words"}}); err == nil {
		t.Error("Strip(body that is not JSON) error = nil, want an error")
	}
	if out, err := Strip(NoDialect, body[1:], nil); err != nil || !bytes.Equal(out, body[1:]) {
		t.Errorf("Strip without edits = %s, error %v, want the body unchanged", out, err)
	}
}

func TestStripUndoesSplice(t *testing.T) {
	text := rapid.OneOf(rapid.Just(block), rapid.Just("[LOOP DETECTED] x\n[END LOOP DETECTED]\n\n"), rapid.String(), rapid.SampledFrom([]string{"w", "\"", "\x00\xff"}))
	rapid.Check(t, func(t *rapid.T) {
		g := requestGenerator{t}
		d, body := g.body()
		r, err := Parse(d, []byte(body))
		if err != nil {
			t.Fatalf("Parse(%s): %v", body, err)
		}
		edits := g.edits(r, text)
		if _, _, ok := r.Find(Anchor{Role: RoleSystem}); ok && g.intN(2) == 0 {
			edits = append(edits, Edit{System, -1, text.Draw(t, "system")}, Edit{System, -1, "more"})
		}
		out, err := r.Splice(nil, edits)
		if err != nil {
			t.Fatalf("Splice(%+v) into %s: error = %v", edits, body, err)
		}
		if !json.Valid(out) {
			t.Fatalf("Splice output is not valid JSON: %s", out)
		}
		restored, err := Strip(d, out, edits)
		if err != nil || string(restored) != body {
			t.Fatalf("Strip(edits %+v) error = %v\n got %s\nfrom %s\nwant %s", edits, err, restored, out, body)
		}
	})
}

func TestHashAndUserTextIgnoreBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := requestGenerator{t}
		d, body := g.body()
		r, err := Parse(d, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		out, err := r.Splice(nil, g.edits(r, rapid.SampledFrom([]string{block, "[LOOP DETECTED] x\n[END LOOP DETECTED]\n\n"})))
		if err != nil {
			t.Fatal(err)
		}
		spliced, err := Parse(d, out)
		if err != nil {
			t.Fatalf("Parse(spliced body %s) error = %v", out, err)
		}
		for i := range r.Len() {
			if r.Hash(i) != spliced.Hash(i) || r.Item(i).UserText != spliced.Item(i).UserText {
				t.Fatalf("item %d: Splice changed Hash or UserText\nbefore %s\nafter  %s", i, r.Raw(i), spliced.Raw(i))
			}
		}
	})
}

// A body with a key such as "System" has no place for another system prompt, because an upstream that ignores case
// would read two system prompts.
func TestFindRefusesMiscasedSystemPromptKey(t *testing.T) {
	for body, d := range map[string]Dialect{
		`{"input":"hi","Instructions":"be brief"}`:                              Responses,
		`{"System":"be brief","messages":[{"role":"user","content":"hi"}]}`:     Messages,
		`{"\u017fYSTEM":"be brief","messages":[{"role":"user","content":"a"}]}`: Messages,
	} {
		r, err := Parse(d, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := r.Find(Anchor{Role: RoleSystem}); ok {
			t.Errorf("%s: Find = true for the system prompt, want false", body)
		}
	}
	r, err := Parse(Responses, []byte(`{"input":"hi","model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := r.Find(Anchor{Role: RoleSystem}); !ok {
		t.Error("no system prompt: Find = false, want true")
	}
}

func FuzzSplice(f *testing.F) {
	for _, s := range seeds() {
		f.Add(uint8(s.dialect), []byte(s.body), "text\n", block)
	}
	f.Fuzz(func(t *testing.T, d uint8, body []byte, one, two string) {
		r, err := Parse(Dialect(d%4), body)
		if err != nil {
			return
		}
		var edits []Edit
		if item, block, ok := r.Find(Anchor{Role: RoleSystem}); ok {
			edits = append(edits, Edit{item, block, two}, Edit{item, block, one})
		}
		for i := range r.Len() {
			it := r.Item(i)
			if it.HasText {
				edits = append(edits, Edit{i, -1, one}, Edit{i, -1, two})
			}
			for _, res := range it.Results {
				if r.acceptsText(i, res) {
					edits = append(edits, Edit{i, res.Block, two})
				}
			}
		}
		out, err := r.Splice(nil, edits)
		if err != nil {
			t.Fatalf("Splice(%+v) error = %v", edits, err)
		}
		if !json.Valid(out) {
			t.Fatalf("Splice output is not valid JSON: %q", out)
		}
		restored, err := Strip(r.Dialect, out, edits)
		if err != nil || !bytes.Equal(restored, body) {
			t.Fatalf("Strip: error %v\n got %q\nfrom %q\nwant %q", err, restored, out, body)
		}
	})
}
