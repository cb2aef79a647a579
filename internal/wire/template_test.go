package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The reader keeps an earlier event as a template. In an event with the same structure, the reader looks only at the
// text that differs.
func TestTemplateDoesNotChangeReply(t *testing.T) {
	events := map[Dialect][]string{ // % stands for the text
		Chat: {
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%},"finish_reason":null}]}`,
			`{"id":"c","model":"m","choices":[{"index":1,"delta":{"content":%},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":%,"content":"twice"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":%},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":%}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"content":%}}`, `{"error":{"message":%}}`,
		},
		Messages: {
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":%}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":%}}`, `{"type":"content_block_stop","index":0,"x":%}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":%,"input":{}}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%}}`,
		},
		Responses: {
			`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":%}`, `{"type":"response.output_text.delta","item_id":"n","output_index":1,"content_index":0,"delta":%}`,
			`{"type":"response.output_text.done","output_index":0,"text":%}`, `{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","content":[]},"x":%}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":%}`,
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]Dialect{Chat, Messages, Responses}).Draw(t, "dialect")
		with, without := NewReplyReader(d, -1, 200), NewReplyReader(d, -1, 200)
		without.sse.handleEvent = func(name, data []byte, lost bool) {
			without.template.valid = false
			without.readEvent(name, data, lost)
		}
		last := ""
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			if last == "" || rapid.IntRange(0, 3).Draw(t, "change structure") == 0 {
				last = rapid.SampledFrom(events[d]).Draw(t, "event")
			}
			piece, err := json.Marshal(rapid.SampledFrom([]string{"a", "", "é\n", `"`, `\`, "longer text", `"}}]}`}).Draw(t, "piece"))
			if err != nil {
				t.Fatal(err)
			}
			text := rapid.SampledFrom([]string{string(piece), string(piece), string(piece), `"bad \q"`, `7`, `"open`}).Draw(t, "raw")
			e := []byte(rapid.SampledFrom([]string{"data: ", "data: ", "event: x\ndata: ", "data:"}).Draw(t, "field") + strings.ReplaceAll(last, "%", text) + rapid.SampledFrom([]string{"\n\n", "\n\n", "\n\n\n", "\r\n\r\n", "\n"}).Draw(t, "end"))
			for _, r := range []*ReplyReader{with, without} {
				if _, err := r.Write(e); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := with.Reply(), without.Reply(); !reflect.DeepEqual(got, want) {
			t.Fatalf("with templates: got %+v, want %+v as without templates", got, want)
		}
	})
}
