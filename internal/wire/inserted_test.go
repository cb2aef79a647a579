package wire_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/internal/wire"
)

// places returns an empty edit for each place that accepts text.
func places(r *wire.Request) []wire.Edit {
	var out []wire.Edit
	for i := range r.Len() {
		it := r.Item(i)
		if it.HasText && it.Role == wire.RoleUser {
			out = append(out, wire.Edit{Item: i, Block: -1})
		}
		for _, res := range it.Results {
			if acceptsText(r, i, res) && !res.Inferred && (!res.InUserText || res.WithCall) {
				out = append(out, wire.Edit{Item: i, Block: res.Block})
			}
		}
	}
	if _, _, ok := r.Find(wire.Anchor{Role: wire.RoleSystem}); ok {
		out = append(out, wire.Edit{Item: wire.System, Block: -1})
	}
	return out
}

func acceptsText(r *wire.Request, i int, res wire.Result) bool {
	_, err := r.Splice(nil, []wire.Edit{{Item: i, Block: res.Block, Text: "x"}})
	return err == nil
}

func escaped(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text)
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// removeInserted removes an inserted text, and the part, member or message created for the text. removeInserted returns
// false unless body contains the text exactly once.
func removeInserted(body []byte, text string) ([]byte, bool) {
	e := escaped(text)
	if bytes.Count(body, []byte(e)) != 1 {
		return nil, false
	}
	for _, form := range []string{
		`{"role":"system","content" :"%"},`, `"content" :"%",`, `"system" :"%",`, `"instructions" :"%",`,
		`{"type":"text","text":"%"},`, `{"type":"input_text","text":"%"},`, `,{"type":"text","text":"%"}`, `,{"type":"input_text","text":"%"}`,
		`{"type":"text","text":"%"}`, `{"type":"input_text","text":"%"}`, "%",
	} {
		if before, after, ok := bytes.Cut(body, []byte(strings.Replace(form, "%", e, 1))); ok {
			return append(bytes.Clone(before), after...), true
		}
	}
	return nil, false
}

// assertInserted splices texts into random places. The output must be JSON and keep the bytes of unchanged items.
// Without the texts, the output must equal body.
func assertInserted(t *rapid.T, d wire.Dialect, body []byte) {
	r, err := wire.Parse(d, bytes.Clone(body))
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	var edits []wire.Edit
	for _, e := range places(r) {
		if rapid.Bool().Draw(t, "insert here") {
			e.Text = fmt.Sprintf("%s (text %d)%s", rapid.SampledFrom([]string{
				"Lessons from past experience:\n- \"run\" it\nEnd of lessons.\n\n", "[LOOP DETECTED] x\n[END LOOP DETECTED]\n\n", "a\\b\t<c>\x01é😀",
			}).Draw(t, "text"), len(edits), rapid.SampledFrom([]string{"\n\n", "\\", ""}).Draw(t, "end"))
			edits = append(edits, e)
		}
	}
	out, err := r.Splice(nil, edits)
	if err != nil {
		t.Fatalf("Splice(%+v) into %s: error = %v", edits, body, err)
	}
	if !bytes.Equal(r.Body, body) {
		t.Fatalf("Splice changed r.Body to %s, want %s", r.Body, body)
	}
	if !json.Valid(out) {
		t.Fatalf("Splice output is not valid JSON: %s", out)
	}
	assertSameItems(t, r, out, edits)
	restored := out
	for _, e := range edits {
		rest, ok := removeInserted(restored, e.Text)
		if !ok {
			t.Fatalf("inserted text %q: want exactly one occurrence in %s", e.Text, restored)
		}
		restored = rest
	}
	if !bytes.Equal(restored, body) {
		t.Fatalf("Splice output without the inserted texts:\n got %s\nwant %s", restored, body)
	}
}

// assertSameItems compares the items in out with the items in r after the edits.
func assertSameItems(t *rapid.T, r *wire.Request, out []byte, edits []wire.Edit) {
	spliced, err := wire.Parse(r.Dialect, out)
	if err != nil {
		t.Fatalf("Parse(spliced body %s) error = %v", out, err)
	}
	added := spliced.Len() - r.Len() // 1 if Splice created a system message
	for i := range r.Len() {
		raw, changed := string(spliced.Raw(i+added)), false
		for _, e := range edits {
			if e.Item != i {
				continue
			}
			at := strings.Index(raw, escaped(e.Text))
			if at < 0 || e.Block < 0 && !strings.Contains(spliced.Item(i+added).Text, e.Text) {
				t.Fatalf("item %d: got %s, want an item that contains the inserted text %q", i, raw, e.Text)
			}
			changed = true
		}
		if !changed && raw != string(r.Raw(i)) && (i > 0 || added > 0 || r.Role(0) != wire.RoleSystem) {
			t.Fatalf("item %d, no insertion: got %s, want %s", i, raw, r.Raw(i))
		}
	}
}

// agentItems returns typical items from agents. An element can be several items. %d stands for a number.
func agentItems(d wire.Dialect) []string {
	return map[wire.Dialect][]string{
		wire.Chat: {
			`{"role":"user","content":"fix it"}`,
			`{"content":[{"type":"text","text":"<system-reminder>r</system-reminder>"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"text","text":"and \"this\""}],"role":"user","name":"bob"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"sh","arguments":"{\"a\":1}"}}],"refusal":null},{"role":"tool","tool_call_id":"call_%d","content":"out\r\n\u001b[0m"}`,
			`{"role":"assistant","tool_calls":[{"id":"p_%d","type":"function","function":{"name":"sh","arguments":"{}"}}]}, {"role":"tool","content":[{"type":"text","text":"one"},{"type":"image_url","image_url":{"url":"x"}}],"tool_call_id":"p_%d"}`,
			`{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"\ud83d\ude00 %d"}`,
			`{"role":"assistant","content":"said %d"},{"role":"developer","content":"mind the step"},{"role":"user","content":null}`,
			`{"role":"assistant","content":"Thought: so\nAction: ls\nAction Input: %d"},{"role":"user","content":"Observation: a.go"}`,
			`{"role":"user","content":"Question: x\nThought: I look\nAction: ls\nAction Input: .\nObservation: a%d\nThought:"}`,
		},
		wire.Responses: {
			`{"role":"user","content":"fix it"}`, `{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>e</environment_context>"},{"type":"input_image","image_url":"x"},{"type":"input_text","text":"do it"}]}`,
			`{"type":"reasoning","id":"rs_%d","summary":[],"encrypted_content":"x"},{"type":"function_call","id":"fc_%d","call_id":"call_%d","name":"exec","arguments":"{\"cmd\":\"ls\"}"},{"type":"function_call_output","call_id":"call_%d","output":"\u00e9"}`,
			`{"type":"custom_tool_call","call_id":"k_%d","name":"apply_patch","input":"*** Begin"},{"type":"custom_tool_call_output","call_id":"k_%d","output":[{"type":"input_text","text":"done"},{"type":"input_image","image_url":"x"}]}`,
			`{"type":"shell_call","call_id":"s_%d","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"s_%d","output":[{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}},{"stdout":"b"}]}`,
			`{"type":"local_shell_call","id":"l_%d","call_id":"l_%d","action":{"command":["ls"]}},{"type":"local_shell_call_output","id":"l_%d","output":"{}"},{"type":"apply_patch_call_output","call_id":"o_%d","status":"failed"}`,
			`{"type":"computer_call_output","call_id":"z_%d","output":{"type":"computer_screenshot","image_url":"x"}},{"type":"item_reference","id":"msg_%d"},{"type":"mystery","text":"x"},{"type":"message","role":"developer","content":"d"}`,
		},
		wire.Messages: {
			`{"role":"user","content":"fix it"}`, `{"role":"user","content":[{"type":"text","text":"<system-reminder>\nr\n</system-reminder>"},{"type":"image","source":{"type":"base64","data":"AA=="}},{"type":"text","text":"run it","cache_control":{"type":"ephemeral"}}]}`,
			`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I will."},{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{"command":"make"}}]},{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","is_error":true,"content":"Exit code 2"}]}`,
			`{"role":"assistant","content":[{"type":"tool_use","id":"a_%d","name":"R","input":{}},{"type":"tool_use","id":"b_%d","name":"R","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_%d","content":[{"type":"text","text":"t"},{"type":"image","source":{}}]},{"type":"tool_result","tool_use_id":"b_%d"},{"type":"text","text":"go on"}]}`,
			`{"role":"assistant","content":[{"type":"server_tool_use","id":"srv_%d","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srv_%d","content":[]}]},{"role":"user","content":[{"type":"document","source":{}},{"type":"tool_result","tool_use_id":"c_%d","content":[ ]}]}`,
			`{"role":"assistant","content":"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_call> %d"},{"role":"user","content":"<tool_response>\nx\n</tool_response>"}`,
		},
	}[d]
}

func agentRequest(t *rapid.T, d wire.Dialect) []byte {
	var items []string
	for i := range rapid.IntRange(1, 8).Draw(t, "length") {
		items = append(items, strings.ReplaceAll(rapid.SampledFrom(agentItems(d)).Draw(t, "item"), "%d", fmt.Sprint(i)))
	}
	system := map[wire.Dialect][]string{
		wire.Chat:      {"", `{"role":"system","content":"be brief"},`, `{"role":"developer","content":[{"type":"text","text":"be brief"}]},`},
		wire.Responses: {"", `"instructions":"be brief",`, `"instructions":null,`},
		wire.Messages:  {"", `"system":"be brief",`, `"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],`, `"system":[],`},
	}[d]
	prompt := rapid.SampledFrom(system).Draw(t, "system")
	key, first := `"messages"`, ""
	if d == wire.Chat {
		prompt, first = "", prompt
	} else if d == wire.Responses {
		key = `"input"`
	}
	return []byte(rapid.SampledFrom([]string{"", "\n ", "\r\n"}).Draw(t, "before") + `{"model":"m", ` + prompt + key + `: [` + first + strings.Join(items, rapid.SampledFrom([]string{",", " , ", ",\n\t"}).Draw(t, "between")) +
		`],"stream":true,"seed":123456789012345678901234567890,"x":-1.5E+400,"metadata":{"b":1,"a":"\/\ud800"}}` + rapid.SampledFrom([]string{"", "\n", " \r\n"}).Draw(t, "after"))
}

func TestSpliceOnlyInsertsTexts(t *testing.T) {
	for _, d := range []wire.Dialect{wire.Chat, wire.Responses, wire.Messages} {
		t.Run(d.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { assertInserted(t, d, agentRequest(t, d)) })
		})
	}
}

// PRECEPT_CAPTURES names a directory outside the repository with JSON Lines files of {path, body}.
func TestSpliceOnlyInsertsTextsIntoRecordedRequests(t *testing.T) {
	dir := os.Getenv("PRECEPT_CAPTURES")
	if dir == "" {
		t.Skip("PRECEPT_CAPTURES is not set: no recorded requests to splice")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d recordings in %s, error %v, want at least one and no error", len(files), dir, err)
	}
	count := map[wire.Dialect]int{}
	for _, file := range files {
		f, err := os.Open(file) //nolint:gosec // in the directory that the caller named
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var rec struct {
				Path string
				Body json.RawMessage
			}
			if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
				t.Fatal(err)
			}
			path, _, _ := strings.Cut(rec.Path, "?")
			d := wire.DialectForPath(path)
			if _, err := wire.Parse(d, rec.Body); d == wire.NoDialect || err != nil {
				continue
			}
			count[d]++
			rapid.Check(t, func(t *rapid.T) { assertInserted(t, d, rec.Body) })
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []wire.Dialect{wire.Chat, wire.Responses, wire.Messages} {
		t.Logf("%d %s requests", count[d], d)
		if count[d] == 0 {
			t.Errorf("the recordings have no %s request", d)
		}
	}
}
