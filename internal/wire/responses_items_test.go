package wire_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"precept/internal/wire"
)

func TestResponsesItemTypeDeterminesRole(t *testing.T) {
	for role, kinds := range map[wire.Role]string{
		wire.RoleTool: "function_call_output custom_tool_call_output local_shell_call_output shell_call_output " +
			"apply_patch_call_output computer_call_output mcp_call_output",
		wire.RoleAssistant: "function_call custom_tool_call local_shell_call shell_call apply_patch_call computer_call " +
			"web_search_call file_search_call image_generation_call code_interpreter_call mcp_call mcp_list_tools " +
			"mcp_approval_request tool_search_call reasoning compaction item_reference",
		wire.RoleOther: "mcp_approval_response additional_tools compaction_trigger something_new",
	} {
		for kind := range strings.FieldsSeq(kinds) {
			item := `{"type":"` + kind + `","id":"x","call_id":"c"}`
			r := mustParse(t, wire.Responses, `{"input":[{"role":"user","content":"a"},`+item+`,{"role":"user","content":"b"}]}`)
			if r.Role(1) != role || (r.FirstNew() == 2) != (role == wire.RoleAssistant) {
				t.Errorf("%s: got role %d, FirstNew = %d, want role %d, and FirstNew = 2 only for model output", kind, r.Role(1), r.FirstNew(), role)
			}
		}
	}
}

// A stream contains a call's arguments up to three times: in fragments, in a separate event, and in the whole item.
func TestTruncatedStreamKeepsCallArguments(t *testing.T) {
	event := func(kind, rest string) string {
		return `data: {"type":"` + kind + `","output_index":0` + rest + "}\n\n"
	}
	function := event("response.output_item.added", `,"item":{"type":"function_call","id":"fc","call_id":"c1","name":"sh","arguments":""}`)
	custom := event("response.output_item.added", `,"item":{"type":"custom_tool_call","id":"ct","call_id":"c1","name":"sh","input":""}`)
	for name, tc := range map[string]struct{ stream, want string }{
		"argument pieces": {function + event("response.function_call_arguments.delta", `,"delta":"{\"a\":"`) + event("response.function_call_arguments.delta", `,"delta":"1}"`), `{"a":1}`},
		"pieces, then all arguments": {
			function + event("response.function_call_arguments.delta", `,"delta":"{\"a\""`) + event("response.function_call_arguments.done", `,"arguments":"{\"a\":2}"`),
			`{"a":2}`,
		},
		"input pieces":                {custom + event("response.custom_tool_call_input.delta", `,"delta":"ls "`) + event("response.custom_tool_call_input.delta", `,"delta":"-l"`), "ls -l"},
		"the whole input":             {custom + event("response.custom_tool_call_input.done", `,"input":"pwd"`), "pwd"},
		"arguments as an object":      {function + event("response.function_call_arguments.done", `,"arguments":{"a":2}`), `{"a":2}`},
		"pieces after the whole item": {function + event("response.output_item.done", `,"item":{"type":"function_call","id":"fc","call_id":"c1","name":"sh","arguments":"{}"}`) + event("response.function_call_arguments.delta", `,"delta":"x"`) + event("response.function_call_arguments.done", `,"arguments":"y"`), "{}"},
	} {
		r := wire.NewReplyReader(wire.Responses, -1, 1<<20)
		_, _ = io.WriteString(r, tc.stream)
		rep := r.Reply()
		if len(rep.Calls) != 1 || rep.Calls[0] != (wire.Call{ID: "c1", Name: "sh", Args: tc.want}) || rep.Complete {
			t.Errorf("%s: got calls %+v, Complete = %v, want one call with arguments %s, and Complete = false", name, rep.Calls, rep.Complete, tc.want)
		}
	}
}

func TestSystemTextInEachDialect(t *testing.T) {
	block := `Lessons from past experience:\n- x\nEnd of lessons.\n`
	for name, tc := range map[string]struct {
		d          wire.Dialect
		body, want string
	}{
		"no system prompt":       {wire.Chat, `{"messages":[{"role":"user","content":"u"}]}`, ""},
		"chat":                   {wire.Chat, `{"messages":[{"role":"system","content":"one"},{"role":"developer","content":[{"type":"text","text":"two"}]},{"role":"user","content":"u"},{"role":"system","content":"late"}]}`, "one\ntwo"},
		"an empty message first": {wire.Chat, `{"messages":[{"role":"system","content":""},{"role":"system","content":"two"},{"role":"user","content":"u"}]}`, "two"},
		"instructions":           {wire.Responses, `{"instructions":"one","input":[{"role":"developer","content":"two"},{"role":"user","content":"u"}]}`, "one\ntwo"},
		"system as parts":        {wire.Messages, `{"system":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"messages":[{"role":"user","content":"u"}]}`, "one\ntwo"},
		"a precept block":        {wire.Messages, `{"system":"one\n` + block + `","messages":[{"role":"user","content":"u"}]}`, "one"},
	} {
		if got := mustParse(t, tc.d, tc.body).SystemText(); got != tc.want {
			t.Errorf("%s: SystemText = %q, want %q", name, got, tc.want)
		}
	}
}

func TestAppendStringMatchesEncodingJSON(t *testing.T) {
	anyByte := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(`"\`+"\n")), rapid.ByteRange('a', 'z'))
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(anyByte).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got, fromEncodingJSON string
		written := wire.AppendString(nil, s)
		if err := json.Unmarshal(written, &got); err != nil || !utf8.Valid(written) {
			t.Fatalf("AppendString(%q) = %q, want JSON in valid UTF-8 (error %v)", s, written, err)
		}
		if err := json.Unmarshal(want, &fromEncodingJSON); err != nil || got != fromEncodingJSON {
			t.Fatalf("AppendString(%q) decodes to %q, want %q, the result of encoding/json (error %v)", s, got, fromEncodingJSON, err)
		}
	})
}

func TestDecodeAcceptsEachEncodingName(t *testing.T) {
	const text = `{"messages":[]}`
	pack := func(w io.WriteCloser, b *bytes.Buffer) []byte {
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		return b.Bytes()
	}
	var gz, br, zs bytes.Buffer
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	gzipped, brotlied, zstded := pack(gzip.NewWriter(&gz), &gz), pack(brotli.NewWriter(&br), &br), pack(z, &zs)
	read := func(encoding string, body []byte) string {
		r, err := wire.Decode(encoding, body)
		if err != nil {
			return "no: " + err.Error()
		}
		defer func() { _ = r.Close() }()
		out, err := io.ReadAll(r)
		if err != nil {
			return "no: " + err.Error()
		}
		return string(out)
	}
	var zl, df bytes.Buffer
	rawDeflate, err := flate.NewWriter(&df, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for encoding, body := range map[string][]byte{
		"deflate": pack(zlib.NewWriter(&zl), &zl), "Deflate": pack(rawDeflate, &df),
		"": []byte(text), "identity": []byte(text), "gzip": gzipped, "x-gzip": gzipped, " GZIP ": gzipped, "br": brotlied, "zstd": zstded,
	} {
		if got := read(encoding, body); got != text {
			t.Errorf("encoding %q: got %s, want %q", encoding, got, text)
		}
	}
	for encoding, body := range map[string][]byte{
		"gzip": gzipped[:len(gzipped)-9], "br": brotlied[:len(brotlied)-2], "zstd": zstded[:len(zstded)-2], "deflate": []byte(text), "gzip, br": gzipped,
	} {
		if got := read(encoding, body); !strings.HasPrefix(got, "no: ") {
			t.Errorf("encoding %q: got %s, want an error", encoding, got)
		}
	}
}

// Some servers accept only parts of type text, and others only parts of type input_text.
func TestSpliceCopiesTypeOfNextPart(t *testing.T) {
	for name, tc := range map[string]struct{ list, want string }{
		"before text":                {`[{"type":"text","text":"x"}]`, `[{"type":"text","text":"B"},{"type":"text","text":"x"}]`},
		"before input_text":          {`[{"type":"input_text","text":"x"}]`, `[{"type":"input_text","text":"B"},{"type":"input_text","text":"x"}]`},
		"before output_text":         {`[{"type":"output_text","text":"x"}]`, `[{"type":"input_text","text":"B"},{"type":"output_text","text":"x"}]`},
		"before an image and a text": {`[{"type":"input_image"},{"type":"text","text":"x"}]`, `[{"type":"text","text":"B"},{"type":"input_image"},{"type":"text","text":"x"}]`},
		"before two types":           {`[{"type":"text","text":"x"},{"type":"input_text","text":"y"}]`, `[{"type":"text","text":"B"},{"type":"text","text":"x"},{"type":"input_text","text":"y"}]`},
		"only an image":              {`[{"type":"input_image"}]`, `[{"type":"input_text","text":"B"},{"type":"input_image"}]`},
		"an empty array":             {`[ ]`, `[{"type":"input_text","text":"B"} ]`},
	} {
		const before, after = `{"input":[{"type":"function_call_output","call_id":"c","output":`, `}]}`
		out, err := mustParse(t, wire.Responses, before+tc.list+after).Splice(nil, []wire.Edit{{Item: 0, Block: 0, Text: "B"}})
		if err != nil || string(out) != before+tc.want+after {
			t.Errorf("%s: Splice = %s, error %v, want %s", name, out, err, before+tc.want+after)
		}
	}
}

// Agents change the white space in items and the order of tools, so the hashes do not cover these.
func TestHashAndToolsHashCoverContent(t *testing.T) {
	hash := func(item string) uint64 { return mustParse(t, wire.Chat, `{"messages":[`+item+`]}`).Hash(0) }
	user := func(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"different agent notes":    {user("I updated the files."), user("Format error:\n\n<error>\nx"), false},
		"a note with a line feed":  {user("I updated the files."), user("I updated the files.\n"), true},
		"different replies":        {`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"b"}`, false},
		"a reply with spaces":      {`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":" a\n"}`, true},
		"replies without a text":   {`{"role":"assistant","content":null,"x":1}`, `{"role":"assistant","content":null,"x":2}`, false},
		"a text, different images": {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}}]}`, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"y"}}]}`, false},
		"a text as one part":       {`{"role":"user","content":[{"type":"text","text":"a"}]}`, user("a"), true},
		"results for two calls":    {`{"role":"tool","tool_call_id":"c1","content":"a"}`, `{"role":"tool","tool_call_id":"c2","content":"a"}`, false},
	} {
		if got := hash(tc.a) == hash(tc.b); got != tc.same {
			t.Errorf("%s: got same hash = %v, want %v", name, got, tc.same)
		}
	}
	tools := func(names ...string) uint64 {
		var list []string
		for _, n := range names {
			list = append(list, `{"type":"function","function":{"name":"`+n+`"}}`)
		}
		return mustParse(t, wire.Chat, `{"messages":[`+user("a")+`],"tools":[`+strings.Join(list, ",")+`]}`).ToolsHash
	}
	for _, tc := range []struct {
		a, b []string
		same bool
	}{
		{[]string{"ab", "c"}, []string{"a", "bc"}, false},
		{[]string{"a", "b"}, []string{"b", "a", "a"}, true},
		{[]string{"a"}, []string{"b"}, false},
	} {
		if got := tools(tc.a...) == tools(tc.b...); got != tc.same {
			t.Errorf("tools %q and %q: got same ToolsHash = %v, want %v", tc.a, tc.b, got, tc.same)
		}
	}
}

// In a stream, a piece of a call without an id continues the last call. Text between the pieces belongs to the reply
// text.
func TestStreamedCallsWithoutIndexAreSeparated(t *testing.T) {
	const first, more, second = `{"id":"a","function":{"name":"f","arguments":"{\"x\""}}`, `{"function":{"arguments":":1}"}}`, `{"id":"b","function":{"name":"g","arguments":"{}"}}`
	const both, counted = `{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}`, `{"index":0,"function":{"arguments":"\"x\""}}`
	for name, deltas := range map[string][]string{
		"one after the other":           {`"tool_calls":[` + first + `]`, `"tool_calls":[` + more + `]`, `"content":"so"`, `"tool_calls":[` + second + `]`, `"content":" it is"`},
		"both in one piece":             {`"content":"so"`, `"tool_calls":[` + first + `,` + more + `,` + second + `]`, `"content":" it is"`},
		"a last piece without an index": {`"content":"so it is","tool_calls":[` + both + `]`, `"tool_calls":[` + counted + `]`, `"tool_calls":[{"function":{"arguments":":1}"}}]`},
	} {
		r := wire.NewReplyReader(wire.Chat, -1, 1<<16)
		for _, d := range deltas {
			_, _ = r.Write([]byte(`data: {"choices":[{"index":0,"delta":{` + d + "}}]}\n\n"))
		}
		rep := r.Reply()
		if want := []wire.Call{{ID: "a", Name: "f", Args: `{"x":1}`}, {ID: "b", Name: "g", Args: "{}"}}; !slices.Equal(rep.Calls, want) || rep.Text != "so it is" {
			t.Errorf("%s: got calls %+v and text %q, want %+v and \"so it is\"", name, rep.Calls, rep.Text, want)
		}
	}
}

func TestHashCoversImagesAndCommandOutput(t *testing.T) {
	const picture = `[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:,"}}]`
	ran := func(output string) string {
		return jsonString("I ran this command:\n\nmake\n\nAnd got this output:\n\n" + output)
	}
	r, err := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"user","content":`+picture+`},{"role":"assistant","content":`+picture+`},{"role":"user","content":`+ran("red")+
		`},{"role":"user","content":`+ran("blue")+`},{"role":"user","content":`+ran("red")+`}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.MediaHash(0) == 0 || r.MediaHash(1) != 0 || r.MediaHash(2) != 0 {
		t.Errorf("MediaHash = %x, %x and %x, want only the first non-zero", r.MediaHash(0), r.MediaHash(1), r.MediaHash(2))
	}
	if r.Hash(2) == r.Hash(3) || r.Hash(2) != r.Hash(4) || r.Hash(0) == r.Hash(1) {
		t.Errorf("items 0 to 4: got hashes %x %x %x %x %x, want 2 and 4 the same, 0 and 1 different, 2 and 3 different", r.Hash(0), r.Hash(1), r.Hash(2), r.Hash(3), r.Hash(4))
	}
}

// Mistral and some local servers send a JSON object or list in place of a string.
func TestCallArgumentsCanBeJSONValues(t *testing.T) {
	const object, list = `{"path": "a/.env", "n": [1, 2]}`, `["ls", "-l"]`
	for _, args := range []string{object, list} {
		call := `"name":"f","arguments":` + args
		custom := `"name":"f","input":` + args
		for body, d := range map[string]wire.Dialect{
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{` + call + `}}]}]}`: wire.Chat,
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{` + custom + `}}]}]}`:   wire.Chat,
			`{"messages":[{"role":"assistant","function_call":{` + call + `}}]}`:                                        wire.Chat,
			`{"input":[{"type":"function_call","call_id":"c",` + call + `}]}`:                                           wire.Responses,
			`{"input":[{"type":"custom_tool_call","call_id":"c",` + custom + `}]}`:                                      wire.Responses,
		} {
			r, err := wire.Parse(d, []byte(body))
			if err != nil {
				t.Fatalf("request %s: got error %v, want none", body, err)
			}
			if calls := r.Item(0).Calls; len(calls) != 1 || calls[0].Args != args {
				t.Errorf("request %s: got calls %+v, want one call with the arguments %s", body, calls, args)
			}
		}
		const added = `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}` + "\n\n"
		const customAdded = `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","call_id":"c","name":"f","input":""}}` + "\n\n"
		for reply, d := range map[string]wire.Dialect{
			`{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","function":{` + call + `}}]}}]}`:                                       wire.Chat,
			`{"choices":[{"index":0,"message":{"tool_calls":[{"id":"c","custom":{` + custom + `}}]}}]}`:                                       wire.Chat,
			`{"choices":[{"index":0,"message":{"function_call":{` + call + `}}}]}`:                                                            wire.Chat,
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{` + call + `}}]}}]}` + "\n\n":                wire.Chat,
			`data: {"choices":[{"index":0,"delta":{"function_call":{` + call + `}}}]}` + "\n\n":                                               wire.Chat,
			`{"status":"completed","output":[{"type":"function_call","call_id":"c",` + call + `}]}`:                                           wire.Responses,
			`{"status":"completed","output":[{"type":"custom_tool_call","call_id":"c",` + custom + `}]}`:                                      wire.Responses,
			added + `data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":` + args + "}\n\n":                       wire.Responses,
			added + `data: {"type":"response.function_call_arguments.done","output_index":0,"arguments":` + args + "}\n\n":                    wire.Responses,
			customAdded + `data: {"type":"response.custom_tool_call_input.done","output_index":0,"input":` + args + "}\n\n":                   wire.Responses,
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c",` + call + `}}` + "\n\n": wire.Responses,
		} {
			r := wire.NewReplyReader(d, -1, 1<<16)
			_, _ = io.WriteString(r, reply)
			if rep := r.Reply(); len(rep.Calls) != 1 || rep.Calls[0].Name != "f" || rep.Calls[0].Args != args {
				t.Errorf("reply %s: got calls %+v, want one call to f with the arguments %s", reply, rep.Calls, args)
			}
		}
	}
}

// If the arguments of a call begin with an object, and string pieces follow, the pieces replace the object.
func TestStreamedObjectArgumentsKeepCallsSeparate(t *testing.T) {
	for _, tc := range []struct {
		pieces []string
		want   []wire.Call
	}{
		{[]string{`{"function":{"name":"f","arguments":{}}}`, `{"function":{"name":"f","arguments":{}}}`}, []wire.Call{{Name: "f", Args: "{}"}, {Name: "f", Args: "{}"}}},
		{[]string{`{"id":"a","function":{"name":"f","arguments":{}}}`, `{"function":{"arguments":"{\"x\""}}`, `{"function":{"arguments":":1}"}}`}, []wire.Call{{ID: "a", Name: "f", Args: `{"x":1}`}}},
		{[]string{`{"id":"a","function":{"name":"f","arguments":{"x":1}}}`, `{"function":{"arguments":""}}`}, []wire.Call{{ID: "a", Name: "f", Args: `{"x":1}`}}},
	} {
		r := wire.NewReplyReader(wire.Chat, -1, 1<<16)
		for _, p := range tc.pieces {
			_, _ = io.WriteString(r, `data: {"choices":[{"index":0,"delta":{"tool_calls":[`+p+"]}}]}\n\n")
		}
		if rep := r.Reply(); !slices.Equal(rep.Calls, tc.want) {
			t.Errorf("pieces %s: got calls %+v, want %+v", tc.pieces, rep.Calls, tc.want)
		}
	}
}

// A server can split a surrogate pair. The echo key needs the whole character. Half a pair becomes U+FFFD.
func TestStreamedPiecesCanSplitACharacter(t *testing.T) {
	for _, tc := range []struct {
		pieces []string // contents of string literals
		want   string
	}{
		{[]string{`Done `, `\ud83d`, `\ude00`, ` ok`}, "Done 😀 ok"},
		{[]string{`Done \uD83D`, `\uDE00 ok\ud83d`, `\ude00`}, "Done 😀 ok😀"},
		{[]string{`a\ud83d`, ``, `\ude00`}, "a😀"},
		{[]string{`a\ud83d`, `b`}, "a\ufffdb"},
		{[]string{`a\ud83d`, `\ud83d`, `\ude00`}, "a\ufffd😀"},
		{[]string{`a\ud83d`}, "a\ufffd"},
		{[]string{`a`, `\ude00`}, "a\ufffd"},
		{[]string{`a\\ud83d`, `\ude00`}, "a\\ud83d\ufffd"},
		{[]string{`a\\\ud83d`, `\ude00`}, `a\😀`},
	} {
		for form, d := range map[string]wire.Dialect{
			`{"choices":[{"index":0,"delta":{"content":"%s"}}]}`:                                      wire.Chat,
			`{"type":"response.output_text.delta","output_index":0,"delta":"%s"}`:                     wire.Responses,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`:      wire.Messages,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"%s"}}]}}]}`:      wire.Chat,
			`{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"%s","name":1}`: wire.Responses,
		} {
			r := wire.NewReplyReader(d, -1, 1<<16)
			for _, p := range tc.pieces {
				_, _ = fmt.Fprintf(r, "data: "+form+"\n\n", p)
			}
			rep := r.Reply()
			got := rep.Text
			if len(rep.Calls) > 0 {
				got = rep.Calls[0].Args
			}
			if got != tc.want {
				t.Errorf("pieces %q in %s: got %q, want %q", tc.pieces, form, got, tc.want)
			}
		}
	}
	r := wire.NewReplyReader(wire.Chat, -1, 1<<16)
	for _, p := range []string{`Done \ud83d`, `\ude00`} {
		_, _ = fmt.Fprintf(r, `data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}`+"\n\n", p)
	}
	req, err := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"assistant","content":"Done 😀"},{"role":"user","content":"go"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := wire.ReplyEchoKeys(r.Reply(), ""), req.EchoKeys(0); !slices.Equal(got, want) {
		t.Errorf("reply keys = %q, want %q, as for the reply in the next request", got, want)
	}
}

// Some servers repeat the name in each piece. After complete arguments, the next piece starts a new call.
func TestStreamedCallsWithoutIDsAreSeparated(t *testing.T) {
	args := `{"text":"` + strings.Repeat("x{]y", 10_000) + `"}`
	r := wire.NewReplyReader(wire.Chat, -1, 1<<20)
	for range 2 {
		for rest := args; rest != ""; {
			piece := rest[:min(len(rest), 3000)]
			rest = rest[len(piece):]
			_, _ = fmt.Fprintf(r, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":%s}}]}}]}`+"\n\n", jsonString(piece))
		}
	}
	if rep := r.Reply(); !slices.Equal(rep.Calls, []wire.Call{{Name: "f", Args: args}, {Name: "f", Args: args}}) {
		t.Errorf("Reply has %d calls %.300v, want 2 calls to f with complete arguments", len(rep.Calls), rep.Calls)
	}
}

func TestParseCacheReadsLeadingSystemMessages(t *testing.T) {
	cache := wire.NewParseCache()
	list := `{"role":"system","content":"` + strings.Repeat("a", 9<<10) + `"}`
	for n := range 4 {
		body := []byte(`{"messages":[` + list + `]}`)
		want, err := wire.Parse(wire.Chat, body)
		got, cacheErr := cache.Parse(1, wire.Chat, body, 0)
		if err != nil || cacheErr != nil || got.SystemHash != want.SystemHash || got.ListHash != want.ListHash || got.Len() != n+1 {
			t.Fatalf("%d items: ParseCache.Parse = %+v, error %v, want %+v, error %v, as from Parse", n+1, got, cacheErr, want, err)
		}
		role := "system"
		if n == 2 {
			role = "user"
		}
		list += fmt.Sprintf(`,{"role":"%s","content":"b%d"}`, role, n)
	}
}

func TestResponsesReplyEchoKeys(t *testing.T) {
	r := wire.NewReplyReader(wire.Responses, -1, 1<<16)
	_, _ = io.WriteString(r, `{"id":"resp_1","status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hi"}]},`+
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}]}`)
	keys := wire.ReplyEchoKeys(r.Reply(), "")
	slices.Sort(keys)
	if want := []string{"c:c1", "c:fc_1", "i:fc_1", "i:msg_1", "r:resp_1"}; !slices.Equal(keys, want) {
		t.Errorf("ReplyEchoKeys = %q, want %q", keys, want)
	}
	r = wire.NewReplyReader(wire.Responses, -1, 1<<16) // the stream lacks its beginning
	_, _ = io.WriteString(r, "data: {\"type\":\"response.function_call_arguments.done\",\"output_index\":0,\"arguments\":\"{}\"}\n\n")
	if rep := r.Reply(); len(rep.Calls) != 1 || rep.Calls[0].Args != "{}" || rep.Text != "" {
		t.Errorf("stream without a beginning: got %+v, want one call with the arguments {} and no text", rep)
	}
}

// Identical messages have the same hash. An anchor therefore counts how many of them come before its message, even with
// tool results in between.
func TestAnchorNthCountsIdenticalMessages(t *testing.T) {
	const step = `{"role":"user","content":"go"},{"role":"assistant","tool_calls":[{"id":"%[1]d","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"%[1]d","content":"x"}`
	list := fmt.Sprintf(step, 1) + "," + fmt.Sprintf(step, 2) + "," + fmt.Sprintf(step, 3)
	r, err := wire.Parse(wire.Chat, []byte(`{"messages":[`+list+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		a := r.AnchorAt(3*n, "")
		a.Index = 0 // as if the list had lost its first items
		if i, block, ok := r.Find(a); a.Nth != n || i != 3*n || block != -1 || !ok {
			t.Errorf("item %d, anchor %+v: Find = item %d, block %d, %v, want Nth = %d, item %d, block -1, true", 3*n, a, i, block, ok, n, 3*n)
		}
	}
}
