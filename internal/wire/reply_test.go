package wire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readReply passes raw to a reader in pieces of n bytes.
func readReply(d Dialect, raw []byte, limit, n int) *Reply {
	r := NewReplyReader(d, -1, limit)
	for len(raw) > 0 {
		k := min(n, len(raw))
		piece := bytes.Clone(raw[:k])
		_, _ = r.Write(piece)
		clear(piece) // the reader must not keep a reference to piece
		raw = raw[k:]
	}
	return r.Reply()
}

type goldenReply struct {
	name    string
	dialect Dialect
	raw     []byte
}

func goldenReplies(tb testing.TB) []goldenReply {
	tb.Helper()
	files, err := filepath.Glob("testdata/replies/*.reply")
	if err != nil || len(files) == 0 {
		tb.Fatalf("got %d golden replies, error %v, want at least one and no error", len(files), err)
	}
	var out []goldenReply
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			tb.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".reply")
		dialect, _, _ := strings.Cut(name, "-")
		out = append(out, goldenReply{name, map[string]Dialect{"chat": Chat, "responses": Responses, "messages": Messages}[dialect], raw})
	}
	return out
}

func TestGoldenReplies(t *testing.T) {
	for _, g := range goldenReplies(t) {
		t.Run(g.name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/replies/" + g.name + ".want.json")
			if err != nil {
				t.Fatal(err)
			}
			var want Reply
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1 << 20, 1, 2, 3, 7, 64} {
				got := *readReply(g.dialect, g.raw, 1<<20, n)
				got.texts, got.otherKeys = nil, nil
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("in %d-byte pieces\n got %+v\nwant %+v", n, got, want)
				}
			}
		})
	}
}

func TestReplyEndsOnlyAtLastEvent(t *testing.T) {
	for _, tc := range []struct {
		dialect Dialect
		before  string
		end     string
	}{
		{Chat, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n", "data: [DONE]\n\n"},
		{Messages, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n", `data: {"type":"message_stop"}` + "\n\n"},
		{Responses, `data: {"type":"response.in_progress","response":{"id":"r","status":"in_progress"}}` + "\n\n", `data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n"},
	} {
		r := NewReplyReader(tc.dialect, -1, 1000)
		_, _ = r.Write([]byte(tc.before))
		if r.Ended() {
			t.Errorf("%s: before the last event: got Ended = true, want false", tc.dialect)
		}
		_, _ = r.Write([]byte(tc.end))
		if !r.Ended() || !r.Reply().Complete {
			t.Errorf("%s: after the last event: got Ended = %v, Complete = %v, want true, true", tc.dialect, r.Ended(), r.Reply().Complete)
		}
	}
}

func TestLinesAfterAHugeLineAreRead(t *testing.T) {
	huge := strings.Repeat("x", 5<<20)
	stream := `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"` + huge + `"}}]}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}` + "\n\ndata: [DONE]\n\n"
	for _, n := range []int{len(stream), 4093} {
		small := readReply(Chat, []byte(stream), 1<<20, n)
		if !small.Cut || !small.Complete || small.Text != "ab" || len(small.Calls) != 0 || small.Usage.Input != 1 {
			t.Errorf("%d-byte pieces, small limit: got Cut = %v, Complete = %v, Text = %q, %d calls, %d input tokens, want Cut and Complete true, Text = ab, 0 calls, 1 input token", n, small.Cut, small.Complete, small.Text, len(small.Calls), small.Usage.Input)
		}
		big := readReply(Chat, []byte(stream), 8<<20, n)
		if big.Cut || !big.Complete || len(big.Calls) != 1 || big.Calls[0].Args != huge {
			t.Errorf("%d-byte pieces, large limit: got Cut = %v, Complete = %v, %d calls, want Cut = false, Complete = true, 1 call with all arguments", n, big.Cut, big.Complete, len(big.Calls))
		}
	}
}

// The last event of a Responses API stream repeats the response and can exceed the limit. Therefore the event's name
// alone shows that the reply is complete. A JSON body is complete if the last byte is a brace.
func TestReplyAboveLimitCanBeComplete(t *testing.T) {
	stream := "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"instructions\":\"" + strings.Repeat("x", 20_000) + "\"}}\n\n"
	r := NewReplyReader(Responses, -1, 1000)
	_, _ = r.Write([]byte(stream))
	if rep := r.Reply(); !r.Ended() || !rep.Complete || rep.Finish != "completed" || !rep.Cut {
		t.Errorf(`long last event: got %+v, Ended = %v, want Complete, Cut, Finish = "completed", Ended = true`, rep, r.Ended())
	}
	aboveLimit := NewReplyReader(Responses, -1, 1000)
	_, _ = aboveLimit.Write([]byte(`{"output":[],"x":"` + strings.Repeat("x", 20_000)))
	_, _ = aboveLimit.Write([]byte("\"}\n"))
	if rep := aboveLimit.Reply(); !rep.Cut || !rep.Complete {
		t.Errorf("JSON body above the limit: got %+v, want Cut and Complete = true", rep)
	}
	truncated := NewReplyReader(Responses, -1, 1000)
	_, _ = truncated.Write([]byte(`{"output":[],"x":"` + strings.Repeat("x", 20_000)))
	if rep := truncated.Reply(); rep.Complete {
		t.Error("JSON body truncated by the upstream: got Complete = true, want false")
	}
}

func TestReplySizeDoesNotExceedLimit(t *testing.T) {
	for _, limit := range []int{-1, 0, 1, 200, 300, 301, 302, 303} {
		var stream strings.Builder
		for range 300 {
			stream.WriteString(`data: {"choices":[{"index":0,"delta":{"content":"` + "\u65e5\u672c" + `"}}]}` + "\n\n")
		}
		rep := readReply(Chat, []byte(stream.String()), limit, 1000)
		if len(rep.Text) > max(limit, 0) || !rep.Cut || strings.ContainsRune(rep.Text, '\ufffd') {
			t.Errorf("limit %d: got %d bytes, Cut = %v, text %q, want at most the limit, Cut = true and only whole characters", limit, len(rep.Text), rep.Cut, rep.Text)
		}
		if limit >= 200 && len(rep.Text) < limit-itemCost-3 {
			t.Errorf("limit %d: got %d bytes, want at least %d", limit, len(rep.Text), limit-itemCost-3)
		}
	}
	var calls strings.Builder
	for range 5_000 {
		calls.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"id":"x","function":{"name":"f"}},{"id":"y","function":{"name":"f"}}]}}]}` + "\n\n")
	}
	if rep := readReply(Chat, []byte(calls.String()), 10_000, 1<<16); !rep.Cut || len(rep.Calls) > 10_000/itemCost {
		t.Errorf("Reply has %d calls, want at most %d", len(rep.Calls), 10_000/itemCost)
	}
}

func TestReplyEchoKeysAreCached(t *testing.T) {
	rep := &Reply{ID: "chatcmpl-1", Text: "a text that is hashed"}
	first := ReplyEchoKeys(rep, "")
	if n := testing.AllocsPerRun(10, func() { ReplyEchoKeys(rep, "") }); n != 0 {
		t.Errorf("second ReplyEchoKeys: got %v allocations, want 0", n)
	}
	if prefilled := ReplyEchoKeys(rep, "it begins: "); len(prefilled) != len(first)+1 || !slices.Equal(first, ReplyEchoKeys(rep, "")) {
		t.Errorf("ReplyEchoKeys = %q without a prefilled text and %q with one, want one additional key with the prefilled text", first, prefilled)
	}
}

func TestReplyEchoKeysMatchNextRequest(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		reply   string
		request string
		want    string
	}{
		{"chat text", Chat, `{"id":"chatcmpl-1","choices":[{"message":{"content":"All done.\n"}}]}`, `{"messages":[{"role":"assistant","content":"All done."}]}`, "t:"},
		{
			"code without the end tag, and an appended call", Chat, `{"choices":[{"message":{"content":"Thought: see\n<code>\nprint(1)\n"}}]}`,
			`{"messages":[{"role":"assistant","content":"Thought: see\n<code>\nprint(1)\n</code>\nCalling tools:\n[{'id': 'call_1', 'type': 'function'}]"}]}`, "t:",
		},
		{
			"code with an end tag, and an appended call", Chat, `{"choices":[{"message":{"content":"Thought: see\n<code>\nprint(1)\n</code>"}}]}`,
			`{"messages":[{"role":"assistant","content":"Thought: see\n<code>\nprint(1)\n</code>\nCalling tools:\n[{'id': 'call_1', 'type': 'function'}]"}]}`, "t:",
		},
		{
			"chat call, text dropped", Chat, `{"choices":[{"message":{"content":"Let me see","tool_calls":[{"id":"call_1","function":{"name":"f","arguments":"{}"}}]}}]}`,
			`{"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`, "c:call_1",
		},
		{"chat, only the result", Chat, `{"choices":[{"message":{"tool_calls":[{"id":"call_1","function":{"name":"f"}}]}}]}`, `{"messages":[{"role":"tool","tool_call_id":"call_1","content":"x"}]}`, "c:call_1"},
		{"responses reference", Responses, `{"object":"response","status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hi"}]}]}`, `{"input":[{"type":"item_reference","id":"msg_1"}]}`, "i:msg_1"},
		{
			"responses second message without id", Responses,
			`{"object":"response","status":"completed","output":[{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"hi"}]},{"type":"message","id":"msg_2","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}]}`,
			`{"input":[{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}]}`, "t:",
		},
		{"messages text", Messages, `{"type":"message","id":"msg_1","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"a"}]}`, `{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]}]}`, "t:"},
		{"messages call", Messages, `{"type":"message","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}]}`, "c:toolu_1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			keys := mustParse(t, tc.dialect, tc.request).EchoKeys(0)
			if len(keys) == 0 || !strings.HasPrefix(keys[0], tc.want) {
				t.Fatalf("request: EchoKeys = %q, want the first key to begin with %q", keys, tc.want)
			}
			replied := ReplyEchoKeys(readReply(tc.dialect, []byte(tc.reply), 1<<20, 5), "")
			if !reflect.DeepEqual(intersection(keys, replied), keys[:1]) {
				t.Errorf("ReplyEchoKeys = %q, want the request's key %q and no other request key", replied, keys[:1])
			}
		})
	}
	if got := ReplyEchoKeys(&Reply{ID: "resp_1", Text: "x", Cut: true}, ""); !reflect.DeepEqual(got, []string{"r:resp_1"}) {
		t.Errorf("ReplyEchoKeys(cut text) = %q, want only the reply id", got)
	}
	if got := ReplyEchoKeys(&Reply{Text: " "}, ""); len(got) != 0 {
		t.Errorf("ReplyEchoKeys(empty text) = %q, want none", got)
	}
}

func intersection(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

func TestReplyIsSameInAnyPieces(t *testing.T) {
	golden := goldenReplies(t)
	rapid.Check(t, func(t *rapid.T) {
		g := golden[rapid.IntRange(0, len(golden)-1).Draw(t, "reply")]
		limit := rapid.SampledFrom([]int{0, 10, 150, 400, 1 << 20}).Draw(t, "limit")
		r := NewReplyReader(g.dialect, -1, limit)
		for rest := g.raw; len(rest) > 0; {
			n := rapid.IntRange(0, min(len(rest), 200)).Draw(t, "n")
			_, _ = r.Write(rest[:n])
			rest = rest[n:]
		}
		if got, want := r.Reply(), readReply(g.dialect, g.raw, limit, len(g.raw)+1); !reflect.DeepEqual(got, want) {
			t.Fatalf("reply %s in pieces\n got %+v\nwant %+v", g.name, got, want)
		}
	})
}

func FuzzReply(f *testing.F) {
	for _, g := range goldenReplies(f) {
		f.Add(uint8(g.dialect), g.raw, uint16(200), uint8(3))
	}
	f.Add(uint8(Chat), []byte("data\n\rdata:\r\n\r\ndata: [DONE]"), uint16(0), uint8(1))
	f.Fuzz(func(t *testing.T, d uint8, raw []byte, limit uint16, n uint8) {
		dialect := Dialect(d % 4)
		inOnePiece := readReply(dialect, raw, int(limit), len(raw)+1)
		pieces := readReply(dialect, raw, int(limit), int(n)+1)
		if !reflect.DeepEqual(inOnePiece, pieces) {
			t.Fatalf("in %d-byte pieces\n got %+v\nwant %+v", int(n)+1, pieces, inOnePiece)
		}
		size := len(inOnePiece.Text)
		for _, c := range inOnePiece.Calls {
			size += len(c.Args)
		}
		if size > int(limit) {
			t.Fatalf("text and arguments: got %d bytes, want at most %d", size, limit)
		}
	})
}

func TestReplyEchoKeysCoverEachChoice(t *testing.T) {
	stream := `data: {"id":"chatcmpl-1","choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"call_b1","function":{"name":"sh","arguments":"{"}}]}}]}

data: {"choices":[{"index":0,"delta":{"content":"one"}},{"index":2,"delta":{"content":"thr"}}]}

data: {"choices":[{"index":2,"delta":{"content":"ee "}},{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"tool_calls"},{"index":2,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`
	r := NewReplyReader(Chat, -1, 1<<20)
	_, _ = r.Write([]byte(stream))
	rep := r.Reply()
	if rep.Text != "one" || len(rep.Calls) != 0 || rep.Choices != 3 || !rep.Complete {
		t.Errorf("Reply = %+v, want Text = one, no calls, Choices = 3, Complete = true", rep)
	}
	keys := ReplyEchoKeys(rep, "")
	for _, want := range []string{"t:" + TextEchoHash("one"), "t:" + TextEchoHash("three"), "c:call_b1", "r:chatcmpl-1"} {
		if !slices.Contains(keys, want) {
			t.Errorf("ReplyEchoKeys = %q, want %q among them", keys, want)
		}
	}
}
