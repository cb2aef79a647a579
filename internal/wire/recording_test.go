package wire_test

import (
	"errors"
	"strings"
	"testing"

	"precept/internal/wire"
)

func TestReadRecordingDetectsDialect(t *testing.T) {
	deep := strings.Repeat("[", 300)
	for raw, want := range map[string]string{
		`{"messages":[{"role":"user","content":"go"}]}`: "chat",
		` {"id":7,"source":"a","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]} `: "messages",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`:                                      "messages",
		`{"messages":[{"role":"user","content":[{"\u0074ype":"tool_\u0072esult","tool_use_id":"a"}]}]}`:                            "messages",
		`{"messages":[{"type":"function_call","name":"f","arguments":"{}","call_id":"a"}]}`:                                        "responses",
		`{"messages":[{"type":"function_call_output","call_id":"a","output":"x"},{"content":[{"type":"tool_use"}]}]}`:              "messages",
		`{"messages":[{"role":"user","content":"a \"tool_use\" and a \"function_call\""}]}`:                                        "chat",
		`{"input":"go"}`: "responses",
		`{"input":[{"role":"user","content":"go"}],"messages":[{"role":"user","content":"so"}]}`: "chat",
		`{"messages":[],"input":[]}`: "list_type",
		`{"messages":"go"}`:          "list_type",
		`{"input":7}`:                "list_type",
		`{"x":1}`:                    "none",
		`[]`:                         "none",
		`"messages"`:                 "none",
		`7`:                          "none",
		`{"messages":`:               "invalid_json",
		`{"messages":[]} x`:          "invalid_json",
		``:                           "invalid_json",
		deep:                         "depth",
	} {
		rec, err := wire.ReadRecording([]byte(raw))
		got, u := "", (*wire.Uninspected)(nil)
		switch {
		case errors.Is(err, wire.ErrNoRecording):
			got = "none"
		case errors.As(err, &u):
			got = string(u.Reason)
		case err == nil:
			got = rec.Request.Dialect.String()
		}
		if got != want {
			t.Errorf("ReadRecording(%.90s) = %s, want %s (error %v)", raw, got, want, err)
		}
	}
	rec, err := wire.ReadRecording([]byte(`{"id":{"n":7},"messages":[{"role":"user","content":"go"}],"source":"a \"b\""}`))
	if err != nil || string(rec.ID) != `{"n":7}` || string(rec.Source) != `"a \"b\""` || rec.Request.Len() != 1 || rec.Request.Item(0).UserText != "go" {
		t.Errorf(`ReadRecording: ID = %s, Source = %s, Request = %+v, error %v, want {"n":7}, "a \"b\"", one item with the text go, no error`, rec.ID, rec.Source, rec.Request, err)
	}
}

// CallsIn also finds calls that Request.Item does not decode.
func TestCallsInFindsCallsInAnyDialect(t *testing.T) {
	for item, want := range map[string]string{
		`{"role":"assistant","tool_calls":[{"function":{"name":"f"}}],"function_call":{"name":"g"}}`: `[{"function":{"name":"f"}}] {"name":"g"}`,
		`{"type":"mystery_call","x":1}`:                `{"type":"mystery_call","x":1}`,
		`{"type":"function_call_output","output":"x"}`: ``,
		`{"role":"assistant","content":[{"type":"tool_use","input":{"a":1}},{"type":"server_tool_use","input":2},{"input":3}]}`: `{"a":1} 2`,
		`{"role":"assistant","content":"tool_use"}`: ``,
		`[{"type":"x_call"}]`:                       ``,
		`7`:                                         ``,
		`{"type":`:                                  `no item`,
		`{} {}`:                                     `no item`,
		``:                                          `no item`,
	} {
		calls, ok := wire.CallsIn([]byte(item))
		var list []string
		for _, c := range calls {
			list = append(list, string(c))
		}
		got := strings.Join(list, " ")
		if !ok {
			got = "no item"
		}
		if got != want {
			t.Errorf("CallsIn(%s) = %s, want %s", item, got, want)
		}
	}
}

func TestStripUserTextRemovesAgentText(t *testing.T) {
	const tags = "system-reminder,environment_context,skills_instructions,user_instructions,current_datetime,SYSTEM_NOTICE,environment_details," +
		"permissions instructions,apps_instructions,plugins_instructions,collaboration_mode,model_switch,turn_aborted,subagent_notification," +
		"task-notification,local-command-caveat,local-command-stdout,local-command-stderr,command-name,command-message,bash-input,bash-stdout," +
		"bash-stderr,ide_opened_file,ide_selection,ide_diagnostics,session-start-hook,user-prompt-submit-hook,new-diagnostics,environment_info," +
		"workspace_info,editorContext,reminderInstructions,reminder,project_context,available_skills,INSTRUCTIONS,previous_response_suffix"
	for tag := range strings.SplitSeq(tags, ",") {
		piece := "<" + tag + ">\nx\n</" + tag + ">"
		words, out := wire.StripUserText("do " + piece + "it")
		if words != "do it" || len(out) != 1 || out[0].Kind != tag || out[0].Text != piece {
			t.Errorf("%s: StripUserText = %q, %v, want \"do it\", the piece %q with kind %s", tag, words, out, piece, tag)
		}
	}
	for text, want := range map[string]string{
		"[LOOP DETECTED] a [END LOOP DETECTED]go": "loop warning", "[KNOWN PITFALLS x] a [END KNOWN PITFALLS]go": "lessons", "[/lesson create x] a [END LESSON]go": "answer to a /lesson command",
		"[Request interrupted by user for tool use]go": "interrupt", "Lessons from past experience:\n- a\nEnd of lessons.\n\ngo": "lessons", "go\n\n# File editing rules:\nx": "edit rules", "go\n\n# V4A Diff Format Rules:\nx": "edit rules",
		"# Context from my IDE setup:\nx\n## My request for Codex:\ngo": "editor context", "# AGENTS.md instructions for /x\n<INSTRUCTIONS>a</INSTRUCTIONS>\ngo": "INSTRUCTIONS,project instructions",
		"<mine>go</mine>": "", "[LOOP] go": "", "Observation: go": "observation", "Caveat: The messages below were generated by the user while running local commands. go": "caveat",
	} {
		words, out := wire.StripUserText(text)
		var kinds []string
		for _, s := range out {
			kinds = append(kinds, s.Kind)
		}
		if got := strings.Join(kinds, ","); got != want || want != "observation" && want != "caveat" && !strings.Contains(words, "go") {
			t.Errorf("StripUserText(%q) = %q, kinds %q, want kinds %q, and the word go unless the kind is observation or caveat", text, words, got, want)
		}
	}
}
