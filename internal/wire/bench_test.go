package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/tidwall/gjson"
)

// conversation returns a request with about size bytes, with tools, calls and results.
func conversation(d Dialect, size int) []byte {
	code := "func main() {\n\tfmt.Println(\"hello, world\")\n\tfor i := range 10 {\n\t\twork(i)\n\t}\n}\n"
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	add(`{"role":"user","content":%s}`, quote("Fix the failing test in the parser package."))
	for n, i := 0, 0; n < size*3/4; i++ {
		out := quote(strings.Repeat(code, 1+i%30))
		id := "call_" + strconv.Itoa(1000+i)
		switch d {
		case Chat:
			add(`{"role":"assistant","content":null,"tool_calls":[{"id":"%s","type":"function","function":{"name":"sh","arguments":"{\"command\":\"cat %d\"}"}}]}`, id, i)
			add(`{"role":"tool","tool_call_id":"%s","content":%s}`, id, out)
		case Responses:
			add(`{"type":"function_call","call_id":"%s","name":"sh","arguments":"{\"command\":\"cat %d\"}"}`, id, i)
			add(`{"type":"function_call_output","call_id":"%s","output":%s}`, id, out)
		case Messages:
			add(`{"role":"assistant","content":[{"type":"tool_use","id":"%s","name":"sh","input":{"command":"cat %d"}}]}`, id, i)
			add(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":%s}]}`, id, out)
		case NoDialect:
		}
		n += len(out) + 200
	}
	system := quote(strings.Repeat("You are a careful agent.\n", size/200))
	tools := strings.Repeat(`{"type":"function","name":"tool","function":{"name":"tool","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}},`, size/2000)
	return fmt.Appendf(nil, `{"model":"m","instructions":%s,"tools":[%s],%q:[%s],"stream":true}`,
		system, strings.TrimSuffix(tools, ","), d.listKey(), strings.Join(items, ","))
}

func forEachSize(b *testing.B, run func(b *testing.B, d Dialect, body []byte)) {
	b.Helper()
	for _, d := range []Dialect{Chat, Responses, Messages} {
		for _, kib := range []int{1, 32, 256} {
			body := conversation(d, kib<<10)
			b.Run(fmt.Sprintf("%s/%dK", d, kib), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				run(b, d, body)
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	forEachSize(b, func(b *testing.B, d Dialect, body []byte) {
		b.Helper()
		for b.Loop() {
			if _, err := Parse(d, body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTurn does the proxy's work for one request: parse the body, find the calls of the new results, find two
// anchors, and splice two texts into the body.
func BenchmarkTurn(b *testing.B) {
	forEachSize(b, func(b *testing.B, d Dialect, body []byte) {
		b.Helper()
		r, err := Parse(d, body)
		if err != nil {
			b.Fatal(err)
		}
		anchors := []Anchor{r.AnchorAt(0, ""), r.AnchorAt(r.Len()-1, r.Item(r.Len() - 1).Results[0].CallID)}
		dst := make([]byte, 0, len(body)*2)
		for b.Loop() {
			r, _ := Parse(d, body)
			for _, res := range r.NewResults() {
				r.FindCall(res.Result.CallID)
			}
			r.LastUser()
			edits := make([]Edit, 0, 2)
			for _, a := range anchors {
				if item, block, ok := r.Find(a); ok {
					edits = append(edits, Edit{item, block, "[LOOP DETECTED]\n[END LOOP DETECTED]\n\n"})
				}
			}
			if dst, err = r.Splice(dst[:0], edits); err != nil || len(edits) != 2 {
				b.Fatalf("Splice(%+v): err = %v, want two edits and no error", edits, err)
			}
		}
	})
}

func BenchmarkSplice(b *testing.B) {
	forEachSize(b, func(b *testing.B, d Dialect, body []byte) {
		b.Helper()
		r, err := Parse(d, body)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 0, len(body)*2)
		edits := []Edit{{0, -1, block}, {r.Len() - 1, 0, block}}
		for b.Loop() {
			if dst, err = r.Splice(dst[:0], edits); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkImage parses a request with a 5 MB image.
func BenchmarkImage(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat("iVBORw0KGgoAAAAN", 5<<20/16) + `"}},{"type":"text","text":"what is it"}]}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := Parse(Chat, body)
		if err != nil || r.LastUser() != 0 {
			b.Fatalf("Parse = %+v, error %v, want LastUser = 0 and no error", r, err)
		}
		r.AnchorAt(0, "")
	}
}

func BenchmarkReplySSE(b *testing.B) {
	for _, d := range []Dialect{Chat, Responses, Messages} {
		var stream bytes.Buffer
		for range 200 {
			switch d {
			case Chat:
				stream.WriteString(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
			case Responses:
				stream.WriteString("event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" word"}` + "\n\n")
			case Messages:
				stream.WriteString("event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}` + "\n\n")
			case NoDialect:
			}
		}
		b.Run(d.String(), func(b *testing.B) {
			b.SetBytes(int64(stream.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r := NewReplyReader(d, -1, 1<<20)
				for p := stream.Bytes(); len(p) > 0; {
					n := min(len(p), 1<<10)
					_, _ = r.Write(p[:n])
					p = p[n:]
				}
				if n := len(r.Reply().Text); n != 1000 {
					b.Fatalf("len(Text) = %d, want 1000", n)
				}
			}
		})
	}
}

// parseWithGJSON does Parse's work with gjson: depth limit, validation, members, and each item's position, role and
// answered calls.
func parseWithGJSON(d Dialect, body []byte) (items []entry, answered int, ok bool) {
	for depth, i, quoted := 0, 0, false; i < len(body); i++ { // gjson overflows the stack on a deeper body
		switch c := body[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, 0, false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if !gjson.ValidBytes(body) {
		return nil, 0, false
	}
	var list, system gjson.Result
	seen := map[string]bool{}
	ok = true
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		ok = ok && !seen[key.Str]
		seen[key.Str] = true
		switch key.Str {
		case d.listKey():
			list = value
		case "instructions", "system":
			system = value
		case "tools":
			value.ForEach(func(_, tool gjson.Result) bool { return tool.Get("name").Exists() })
		}
		return ok
	})
	list.ForEach(func(_, item gjson.Result) bool {
		e := entry{start: int32(item.Index), end: int32(item.Index + len(item.Raw)), role: parseRole(item.Get("role").Str)}
		if item.Get("tool_call_id").Exists() || item.Get("call_id").Exists() || item.Get("content.#.tool_use_id").Exists() {
			answered++
		}
		items = append(items, e)
		return true
	})
	_ = xxhash.Sum64String(list.Raw) + xxhash.Sum64String(system.Raw)
	return items, answered, ok
}

// BenchmarkParseWithGJSON is the counterpart to BenchmarkParse.
func BenchmarkParseWithGJSON(b *testing.B) {
	forEachSize(b, func(b *testing.B, d Dialect, body []byte) {
		b.Helper()
		want, err := Parse(d, body)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if items, answered, ok := parseWithGJSON(d, body); !ok || len(items) != want.Len() || answered == 0 {
				b.Fatalf("parseWithGJSON = %d items, %d answered calls, %v, want %d items, at least 1 call, true", len(items), answered, ok, want.Len())
			}
		}
	})
}

// BenchmarkParseCache parses a conversation that grew by a call and a result, without and with a checkpoint for the
// previous body.
func BenchmarkParseCache(b *testing.B) {
	for _, kib := range []int{32, 256} {
		body := conversation(Chat, kib<<10)
		r, err := Parse(Chat, body)
		if err != nil {
			b.Fatal(err)
		}
		cutAt := r.itemSpan(r.Len() - 3).end
		before := append(slices.Clone(body[:cutAt]), `],"stream":true}`...)
		b.Run(fmt.Sprintf("without/%dK", kib), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(Chat, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("with/%dK", kib), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			m := NewParseCache()
			if _, err := m.Parse(1, Chat, before, 0); err != nil {
				b.Fatal(err)
			}
			kept := maps.Clone(m.checkpoints)
			for b.Loop() {
				m.checkpoints = maps.Clone(kept) // as before this turn
				if _, err := m.Parse(1, Chat, body, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTemplate reads a stream with and without templates. A template is an earlier event with the same structure.
func BenchmarkTemplate(b *testing.B) {
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
	stream := bytes.Repeat(event, 200)
	for _, name := range []string{"with", "without"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r := NewReplyReader(Chat, -1, 1<<20)
				if name == "without" {
					r.sse.handleEvent = func(name, data []byte, lost bool) {
						r.template.valid = false
						r.readEvent(name, data, lost)
					}
				}
				for n := range 200 { // one Write per event
					_, _ = r.Write(stream[n*len(event) : (n+1)*len(event)])
				}
				if n := len(r.Reply().Text); n != 1000 {
					b.Fatalf("len(Text) = %d, want 1000", n)
				}
			}
		})
	}
}

// BenchmarkEventWithGJSON validates each event with gjson and finds members by path.
func BenchmarkEventWithGJSON(b *testing.B) {
	event := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`)
	b.SetBytes(int64(200 * len(event)))
	b.ReportAllocs()
	for b.Loop() {
		var text []byte
		for range 200 {
			if !gjson.ValidBytes(event) {
				b.Fatalf("gjson rejects event %s", event)
			}
			e := gjson.ParseBytes(event)
			_, _, _ = e.Get("id").Str, e.Get("model").Str, e.Get("usage").Raw
			e.Get("choices").ForEach(func(_, c gjson.Result) bool {
				if c.Get("index").Int() == 0 && c.Get("finish_reason").Str == "" {
					text = append(text, c.Get("delta.content").Str...)
				}
				return true
			})
		}
		if len(text) != 1000 {
			b.Fatalf("len(text) = %d, want 1000", len(text))
		}
	}
}
