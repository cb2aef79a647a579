package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/internal/wire"
)

func readInPieces(d wire.Dialect, raw string, piece int) *wire.Reply {
	r := wire.NewReplyReader(d, -1, 1<<20)
	for len(raw) > 0 {
		n := min(piece, len(raw))
		_, _ = r.Write([]byte(raw[:n]))
		raw = raw[n:]
	}
	return r.Reply()
}

func TestReadUnusualReplies(t *testing.T) {
	long := strings.Repeat("é", 600)
	for _, tc := range []struct {
		d         wire.Dialect
		raw, want string // want: error, finish reason, completeness, and input, cached and output tokens (-1: unknown)
	}{
		{wire.Chat, `{"error":{"code":7}}`, `"unknown error" "" false {-1 -1 -1}`},
		{wire.Chat, `{"error":"busy"}`, `"busy" "" false {-1 -1 -1}`},
		{wire.Chat, `{"error":{"message":"` + long + `"}}`, fmt.Sprintf("%q %q false {-1 -1 -1}", long[:1024], "")},
		{wire.Chat, `{"error":null,"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}`, `"" "stop" true {5 3 2}`},
		{wire.Chat, `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":5,"prompt_cache_hit_tokens":4,"completion_tokens":"2"}}`, `"" "" true {5 4 -1}`},
		// Gemini and xAI: reasoning is only in total_tokens.
		{wire.Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}}`, `"" "stop" true {20 -1 603}`},
		// Moonshot: cached_tokens next to prompt_tokens, and usage in a choice.
		{wire.Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":4}}`, `"" "stop" true {5 4 2}`},
		{wire.Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"},"usage":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":4}}]}`, `"" "stop" true {5 4 2}`},
		{wire.Chat, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"cached_tokens\":4}}]}\n\ndata: [DONE]\n\n", `"" "stop" true {5 4 2}`},
		{wire.Chat, `{"choices":[{"index":1,"usage":{"prompt_tokens":9}},{"index":0,"usage":{"prompt_tokens":5}}]}`, `"" "" true {5 -1 -1}`},
		// Groq: usage in x_groq.
		{wire.Chat, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"id\":\"r\",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}}\n\ndata: [DONE]\n\n", `"" "stop" true {5 -1 2}`},
		{wire.Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":null,"x_groq":{"usage":{"prompt_tokens":5,"completion_tokens":2}}}`, `"" "stop" true {5 -1 2}`},
		// Mistral: num_cached_tokens.
		{wire.Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":2,"num_cached_tokens":3}}`, `"" "stop" true {5 3 2}`},
		// A later zero, null or missing count does not change the earlier count.
		{wire.Chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"cached_tokens\":4}}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"cached_tokens\":0}}\n\ndata: {\"usage\":null}\n\ndata: [DONE]\n\n", `"" "stop" true {5 4 2}`},
		{wire.Chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9}}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":3}}\n\n", `"" "stop" true {5 -1 9}`},
		{wire.Chat, `{"choices":[{"usage":{"prompt_tokens":0,"completion_tokens":0}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, `"" "" true {5 -1 2}`},
		{wire.Chat, `{"choices":[],"usage":{"prompt_tokens":5,"cached_tokens":4,"prompt_tokens_details":{"cached_tokens":0}}}`, `"" "" true {5 4 -1}`},
		{wire.Messages, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":7,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":4}}\n\n", `"" "end_turn" true {10 7 4}`},
		{wire.Messages, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":0,\"output_tokens\":0}}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n\n", `"" "end_turn" true {3 -1 4}`},
		{wire.Responses, "data: {\"type\":\"response.in_progress\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":0,\"output_tokens\":0,\"cached_tokens\":1}}}\n\n", `"" "completed" true {3 1 2}`},
		{wire.Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"cut\"}}\n\ndata: [DONE]\n\n", `"cut" "" false {-1 -1 -1}`},
		{wire.Chat, ": comment\n\nevent: x\nid: 1\nretry: 5\n\ndata:{\"choices\":[{\"index\":0,\"finish_reason\":\"length\"}]}\n\n", `"" "length" true {-1 -1 -1}`},
		{wire.Chat, "\xef\xbb\xbf\n data: x\n\n", `"" "" false {-1 -1 -1}`},
		{wire.Messages, `{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":0,"cache_read_input_tokens":7,"cache_creation_input_tokens":2,"output_tokens":1}}`, `"" "end_turn" true {9 7 1}`},
		{wire.Messages, `{"type":"message","usage":{"cache_read_input_tokens":7}}`, `"" "" true {-1 7 -1}`},
		{wire.Messages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, `"Overloaded" "" false {-1 -1 -1}`},
		{wire.Messages, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3}}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":4}}\n\nevent: message_stop\ndata: {}\n\nevent: error\ndata: {\"error\":{\"message\":\"late\"}}\n\n", `"" "max_tokens" true {3 -1 4}`},
		{wire.Messages, "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n", `"no" "" false {-1 -1 -1}`},
		{wire.Responses, `{"status":"incomplete","output":[],"usage":{"input_tokens":1,"output_tokens":2,"input_tokens_details":{"cached_tokens":0}}}`, `"" "incomplete" true {1 0 2}`},
		{wire.Responses, `{"status":"failed"}`, `"response failed" "failed" false {-1 -1 -1}`},
		{wire.Responses, `{"error":{"message":"no such model"}}`, `"no such model" "failed" false {-1 -1 -1}`},
		{wire.Responses, "event: response.cancelled\ndata: {\"response\":{\"output\":[]}}\n\n", `"" "cancelled" true {-1 -1 -1}`},
		{wire.Responses, "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"message\":\"sad\"}}}\n\n", `"sad" "failed" false {-1 -1 -1}`},
		{wire.Responses, "data: {\"type\":\"error\",\"message\":\"bad\"}\n\n", `"bad" "" false {-1 -1 -1}`},
		{wire.Responses, "data: {\"type\":\"response.done\",\"response\":{\"usage\":{\"output_tokens\":9}}}\n\ndata: {\"type\":\"response.failed\",\"response\":{}}\n\n", `"" "completed" true {-1 -1 9}`},
		{wire.Chat, ``, `"" "" false {-1 -1 -1}`},
		{wire.Chat, `[1]`, `"" "" false {-1 -1 -1}`},
		{wire.Chat, `{"choices":`, `"" "" false {-1 -1 -1}`},
		{wire.NoDialect, `{"error":"x"}`, `"" "" true {-1 -1 -1}`},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			rep := readInPieces(tc.d, tc.raw, piece)
			if got := fmt.Sprintf("%q %q %v {%d %d %d}", rep.Error, rep.Finish, rep.Complete, rep.Usage.Input, rep.Usage.Cached, rep.Usage.Output); got != tc.want {
				t.Errorf("%.150q in %d-byte pieces: got %.200s, want %.200s", tc.raw, piece, got, tc.want)
			}
		}
	}
}

// Providers use several names for the tokens written to the prompt cache. Only the Messages API leaves them out of the
// input.
func TestCacheWritesAreRead(t *testing.T) {
	anthropic := `"cache_read_input_tokens":1000,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":200,"ephemeral_1h_input_tokens":100}`
	for name, tc := range map[string]struct {
		dialect wire.Dialect
		raw     string
		want    wire.Usage
	}{
		"Anthropic": {
			wire.Messages, `{"type":"message","usage":{"input_tokens":5,` + anthropic + `,"output_tokens":7,"service_tier":"standard"}}`,
			wire.Usage{Input: 1305, Cached: 1000, Written: 300, WrittenHour: 100, Output: 7},
		},
		"Anthropic stream": {
			wire.Messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5," + anthropic + ",\"output_tokens\":1}}}\n\n" +
				"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":300,\"cache_read_input_tokens\":1000,\"output_tokens\":7}}\n\n",
			wire.Usage{Input: 1305, Cached: 1000, Written: 300, WrittenHour: 100, Output: 7},
		},
		"Anthropic without a split": {
			wire.Messages, `{"type":"message","usage":{"input_tokens":5,"cache_creation_input_tokens":300,"output_tokens":7}}`,
			wire.Usage{Input: 305, Cached: -1, Written: 300, Output: 7},
		},
		"OpenAI": {
			wire.Responses, `{"usage":{"input_tokens":1305,"input_tokens_details":{"cached_tokens":1000,"cache_write_tokens":300},"output_tokens":7,"total_tokens":1312}}`,
			wire.Usage{Input: 1305, Cached: 1000, Written: 300, Output: 7},
		},
		"OpenRouter": {
			wire.Chat, `{"usage":{"prompt_tokens":1305,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":300,"audio_tokens":0}}}`,
			wire.Usage{Input: 1305, Cached: 1000, Written: 300, Output: 7},
		},
		"LiteLLM": {
			wire.Chat, `{"usage":{"prompt_tokens":1305,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":1000,"cache_creation_tokens":300,` +
				`"cache_creation_token_details":{"ephemeral_5m_input_tokens":200,"ephemeral_1h_input_tokens":100}},"cache_creation_input_tokens":300,"cache_read_input_tokens":1000}}`,
			wire.Usage{Input: 1305, Cached: 1000, Written: 300, WrittenHour: 100, Output: 7},
		},
		"Qwen": {
			wire.Chat, `{"usage":{"prompt_tokens":1305,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":300,"cache_creation":{"ephemeral_5m_input_tokens":300}}}}`,
			wire.Usage{Input: 1305, Cached: 0, Written: 300, Output: 7},
		},
		"more cache writes than input": {
			wire.Chat, `{"usage":{"prompt_tokens":10,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":30},"cache_creation":{"ephemeral_1h_input_tokens":40}}}`,
			wire.Usage{Input: 10, Cached: 4, Written: 6, WrittenHour: 6, Output: 7},
		},
		"without the input": {wire.Messages, `{"type":"message","usage":{"cache_creation_input_tokens":300}}`, wire.Usage{Input: -1, Cached: -1, Output: -1}},
		"wrong types":       {wire.Messages, `{"type":"message","usage":{"input_tokens":5,"cache_creation":[{"ephemeral_1h_input_tokens":9}],"cache_creation_input_tokens":"8"}}`, wire.Usage{Input: 5, Cached: -1, Output: -1}},
	} {
		if got := readInPieces(tc.dialect, tc.raw, 1<<20).Usage; got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestIncredibleTokenCountsAreAbsent(t *testing.T) {
	for _, tc := range []struct {
		dialect wire.Dialect
		raw     string
		want    wire.Usage
	}{
		{wire.Chat, `{"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":1000000001}}`, wire.Usage{Input: -1, Cached: -1, Output: -1}},
		{wire.Chat, `{"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":1000000000}}`, wire.Usage{Input: -1, Cached: -1, Output: 1_000_000_000}},
		{wire.Chat, `{"usage":{"prompt_tokens":-50000,"completion_tokens":-99999999999999999999}}`, wire.Usage{Input: -1, Cached: -1, Output: -1}},
		{wire.Chat, `{"usage":{"prompt_tokens":1e18,"completion_tokens":"7","total_tokens":1e18}}`, wire.Usage{Input: -1, Cached: -1, Output: -1}},
		{wire.Chat, `{"usage":{"prompt_tokens":1000.0,"completion_tokens":2e2}}`, wire.Usage{Input: 1000, Cached: -1, Output: 200}},
		{wire.Chat, `{"usage":{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":600}}}`, wire.Usage{Input: 100, Cached: 100, Output: 2}},
		{wire.Responses, `{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":9223372036854775807}}}`, wire.Usage{Input: 5, Cached: -1, Output: -1}},
		{
			wire.Messages, `{"type":"message","usage":{"input_tokens":9,"cache_read_input_tokens":9223372036854775807,"cache_creation_input_tokens":-3,"output_tokens":7}}`,
			wire.Usage{Input: 9, Cached: -1, Output: 7},
		},
	} {
		r := wire.NewReplyReader(tc.dialect, -1, 1<<16)
		_, _ = r.Write([]byte(tc.raw))
		if got := r.Reply().Usage; got != tc.want {
			t.Errorf("reply %s: got %+v, want %+v", tc.raw, got, tc.want)
		}
	}
}

// An image in a reply may be longer than the limit.
func TestUsageAfterDiscardedTextIsRead(t *testing.T) {
	long := strings.Repeat(`\"usage\":{\"input_tokens\":9}`, 1<<10)
	usage := `"usage": {"input_tokens":7,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":1},"output_tokens":2},"user":null,"metadata":{},"total_tokens":99`
	response := `{"status":"completed","output":[{"type":"image_generation_call","result":"` + long + `"}],` + usage + `}`
	for _, raw := range []string{response, "event: response.completed\ndata: {\"response\":" + response + "}\n\n"} {
		for _, piece := range []int{1, 1000, 1 << 20} {
			r := wire.NewReplyReader(wire.Responses, -1, 1<<12)
			for part := range slices.Chunk([]byte(raw), piece) {
				_, _ = r.Write(part)
			}
			if rep, want := r.Reply(), (wire.Usage{Input: 7, Cached: 4, Written: 1, Output: 2}); !rep.Cut || !rep.Complete || rep.Usage != want {
				t.Errorf("%.20q in %d-byte pieces: got Cut = %v, Complete = %v, usage %+v, want Cut and Complete true, usage %+v", raw, piece, rep.Cut, rep.Complete, rep.Usage, want)
			}
		}
	}
}

func TestReplyTextIsCutAtLimit(t *testing.T) {
	for limit := 120; limit < 300; limit += 7 {
		r := wire.NewReplyReader(wire.Chat, -1, limit)
		for range 40 {
			_, _ = r.Write([]byte("data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"日本é\"}}]}\n\n"))
		}
		_, _ = r.Write([]byte("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
		rep := r.Reply()
		if !rep.Cut || !rep.Complete || rep.ID != "c1" || !strings.HasPrefix(strings.Repeat("日本é", 40), rep.Text) || len(rep.Text) > limit || strings.ContainsRune(rep.Text, '\uFFFD') {
			t.Errorf("limit %d: got %+v, want Complete and Cut, and a text cut at a character boundary", limit, rep)
		}
	}
}
