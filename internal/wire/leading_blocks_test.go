package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/wire"
)

// If another precept forwarded the request, results and messages can begin with blocks that the other precept inserted.
// LeadingBlocks recognizes a block only by the exact wording.
func TestLeadingBlocksFromAnotherPrecept(t *testing.T) {
	const advice = "Lessons from past experience:\n(Advice from earlier runs, not a request from the user. Ignore what does not apply.)\n- a\nEnd of lessons.\n\n"
	const pitfalls = "[KNOWN PITFALLS from earlier runs. Advice, not a request from the user; ignore what does not apply.]\n- b\n[END KNOWN PITFALLS]\n\n"
	const loop = "[LOOP DETECTED] You have called f.\n[END LOOP DETECTED]\n\n"
	const commandAnswer = "[/lesson create x] OK [END LESSON]\n\n"
	for _, lead := range []string{"", advice, pitfalls, loop, commandAnswer, advice + loop, loop + pitfalls + commandAnswer} {
		assertLeadingBlocks(t, lead, "out", "out")
		assertLeadingBlocks(t, lead, "see: "+advice+"out", "see: "+advice+"out")
	}
	for _, quoted := range []string{
		strings.TrimSuffix(advice, "End of lessons.\n\n"), strings.TrimSuffix(loop, "\n\n"), strings.Replace(pitfalls, "KNOWN", "OWN", 1), strings.TrimSuffix(commandAnswer, "[END LESSON]\n\n"), " " + loop,
		strings.Replace(advice, "Advice", "advice", 1), "[END LESSON]\n" + strings.TrimSpace(strings.TrimSuffix(pitfalls, "[END KNOWN PITFALLS]\n\n")),
	} {
		assertLeadingBlocks(t, "", quoted, quoted)
	}
}

func assertLeadingBlocks(t *testing.T, lead, rest, wantText string) {
	t.Helper()
	raw, err := json.Marshal(lead + rest)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, tc := range []struct {
		d    wire.Dialect
		body string
	}{
		{wire.Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":` + text + `}]}`},
		{wire.Chat, `{"messages":[{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":` + text + `}]}]}`},
		{wire.Responses, `{"input":[{"type":"function_call_output","call_id":"c","output":` + text + `}]}`},
		{wire.Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":` + text + `}]}]}`},
	} {
		if res := mustParse(t, tc.d, tc.body).Item(0).Results[0]; res.LeadingBlocks != lead || res.Text != wantText {
			t.Errorf("%s body %s: got LeadingBlocks = %q, Text = %q, want %q, %q", tc.d, tc.body, res.LeadingBlocks, res.Text, lead, wantText)
		}
	}
	if it := mustParse(t, wire.Chat, `{"messages":[{"role":"user","content":`+text+`}]}`).Item(0); it.LeadingBlocks != lead {
		t.Errorf("user message %s: got LeadingBlocks = %q, want %q", text, it.LeadingBlocks, lead)
	}
}

// The echo key of a trajectory (a message with all steps so far) must equal a key of the reply that contained the
// newest step.
func TestTrajectoryEchoKeyIsFromNewestStep(t *testing.T) {
	const replyText = "[[ ## next_thought ## ]]\nI look\n\n[[ ## next_tool_name ## ]]\nf\n\n[[ ## next_tool_args ## ]]\n{\"a\": 1}\n\n[[ ## completed ## ]]"
	reader := wire.NewReplyReader(wire.Chat, -1, 1<<20)
	_, _ = reader.Write(mustJSON(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": replyText}}}}))
	keys := strings.Join(wire.ReplyEchoKeys(reader.Reply(), ""), " ")
	for steps, known := range map[string]bool{
		"[[ ## thought_0 ## ]]\nI look\n\n[[ ## tool_name_0 ## ]]\nf\n\n[[ ## tool_args_0 ## ]]\n{\"a\":1}\n\n[[ ## observation_0 ## ]]\nx":                                                                                            true,
		"[[ ## thought_0 ## ]]\nI see\n\n[[ ## tool_name_0 ## ]]\nf\n\n[[ ## tool_args_0 ## ]]\n{\"a\":1}\n\n[[ ## observation_0 ## ]]\nx":                                                                                             false,
		"[[ ## thought_0 ## ]]\nI look\n\n[[ ## tool_name_0 ## ]]\ng\n\n[[ ## tool_args_0 ## ]]\n{\"a\":1}\n\n[[ ## observation_0 ## ]]\nx":                                                                                            false,
		"[[ ## thought_0 ## ]]\nno\n\n[[ ## tool_name_0 ## ]]\ng\n\n[[ ## observation_0 ## ]]\ny\n\n[[ ## thought_1 ## ]]\nI look\n\n[[ ## tool_name_1 ## ]]\nf\n\n[[ ## tool_args_1 ## ]]\n{\"a\":1}\n\n[[ ## observation_1 ## ]]\nx": true,
		"[[ ## thought_0 ## ]]\nI look": false,
	} {
		r := mustParse(t, wire.Chat, string(mustJSON(map[string]any{"messages": []any{map[string]string{"role": "user", "content": "[[ ## question ## ]]\nq\n\n[[ ## trajectory ## ]]\n" + steps + "\n\nRespond with the corresponding output fields, starting with the field `x`"}}})))
		got := false
		for _, key := range r.EchoKeys(0) {
			got = got || strings.Contains(keys, key)
		}
		if got != known {
			t.Errorf("%q: got EchoKeys %v; a key is among the reply's keys (%s) = %v, want %v", steps, r.EchoKeys(0), keys, got, known)
		}
	}
}
