package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"precept/internal/wire"
)

// allItems is more than the number of items in a test conversation.
const allItems = 16

// newConversation returns a request with a system message and turns. A turn is a text after "U " (user) or "A "
// (assistant).
func newConversation(t *testing.T, turns ...string) *wire.Request {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	list := []message{{"system", "You help."}}
	for _, turn := range turns {
		role, text, _ := strings.Cut(turn, " ")
		list = append(list, message{map[string]string{"U": "user", "A": "assistant"}[role], text})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": list})
	if err != nil {
		t.Fatal(err)
	}
	req, err := wire.Parse(wire.Chat, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// Each harness writes the user's request into a template, here at the @.
func TestTaskRemovesHarnessTemplate(t *testing.T) {
	t.Parallel()
	for harness, template := range map[string]string{
		"none":                   "@",
		"mini-SWE-agent":         "Please solve this issue: @\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n## Steps\n\n1. Look",
		"mini-SWE-agent, bench":  "<pr_description>\nConsider the following PR description:\n@\n</pr_description>\n\n<instructions>\nSubmit.\n</instructions>",
		"SWE-agent":              "<uploaded_files>\n/repo\n</uploaded_files>\nI've uploaded a repository. Consider the following PR description:\n\n<pr_description>\n@\n</pr_description>\n\nCan you meet the <pr_description>?",
		"SWE-agent 0.7":          "We're currently solving the following issue within our repository. Here's the issue text:\nISSUE:\n@\n\nINSTRUCTIONS:\nEdit the files.",
		"Trae":                   "[Project root path]:\n/repo\n\n[Problem statement]: We're currently solving the following issue within our repository. Here's the issue text:\n@\n",
		"OpenHands":              "<uploaded_files>\n/repo\n</uploaded_files>\n\nI've uploaded a repository.\n\n<issue_description>\n@\n</issue_description>\n\nCan you help?",
		"OpenHands, no tools":    "A running example.\nUSER: list\n\n--------------------- NEW TASK DESCRIPTION ---------------------\n<issue_description>\n@\n</issue_description>\n--------------------- END OF NEW TASK DESCRIPTION ---------------------\n\nFollow the format!",
		"Kiro":                   "--- CONTEXT ENTRY BEGIN ---\nCurrent time: noon\n--- CONTEXT ENTRY END ---\n\n--- USER MESSAGE BEGIN ---\n@--- USER MESSAGE END ---",
		"CrewAI":                 "\nCurrent Task: @\n\nThis is the expected criteria for your final answer: A diff.\nyou MUST return it.",
		"CrewAI, ReAct":          "\nCurrent Task: @\n\nBegin! This is VERY important to you, use the tools available.\n\nThought:",
		"CrewAI, nothing else":   "\nCurrent Task: @",
		"smolagents":             "New task:\n@",
		"LangChain, ReAct":       "Answer as best you can.\n\nQuestion: the input question\nThought: think\n\nBegin!\n\nQuestion: @\nThought:",
		"LangChain, structured":  "@\n\n\n (reminder to respond in a JSON blob no matter what)",
		"LangChain, chat":        "TOOLS\n------\nlook: looks\n\nUSER'S INPUT\n----\nHere is the user's input (remember to respond with a markdown code snippet of a json blob with a single action, and NOTHING else):\n\n@",
		"Cline":                  "<user_input mode=\"act\"><mode_notice>Act.</mode_notice>@</user_input>\n<file_content path=\"a.go\">\npackage a\n</file_content>",
		"Cline, a command":       "<user_command slash=\"fix\">@</user_command>",
		"Cline, older version":   "<task>\n@\n</task>\n\n# Keep a list\n\n<environment_details>\nx\n</environment_details>",
		"Roo":                    "<user_message>\n@\n</user_message>\n\n<environment_details>\nx\n</environment_details>",
		"Cursor":                 "<user_info>\nLinux\n</user_info>\n\n<timestamp>noon</timestamp><user_query>\n@\n</user_query>",
		"Copilot Chat":           "<attachments>\n<attachment id=\"a.go\">\npackage a\n</attachment>\n</attachments>\n<context>\nToday is a Friday.\n</context>\n<userRequest>\n@\n</userRequest>",
		"Copilot Chat, a note":   "<unlisted id=\"1\">\nx\n</unlisted>\n<userRequest>\n@\n</userRequest>",
		"OpenSpec":               "The user asked for a proposal.\n<UserRequest>\n  @\n</UserRequest>\n## Steps",
		"Claude Code, a command": "<command-message>fix is running</command-message>\n<command-name>/fix</command-name>\n<command-args>@</command-args>",
		"goose":                  "<info-msg>\nIt is noon.\n</info-msg>\n@",
		"Zed":                    "@\n<context>\nThe following items were attached by the user.\n\n<files>\npackage a\n</files>\n</context>\n",
	} {
		for _, task := range []string{"Round the total.", "Round the total.\n\n- of a cart\n- of an order"} {
			req := newConversation(t, "U "+strings.Replace(template, "@", task, 1))
			if got := req.Task(allItems); got != task {
				t.Errorf("%s: Task = %q, want %q", harness, got, task)
			}
			if text := req.Item(1).UserText; harness == "mini-SWE-agent" && !strings.Contains(text, "## Steps") {
				t.Errorf("UserText = %q, want the whole message, because the hash covers UserText", text)
			}
		}
	}
}

func TestTaskSkipsPreamble(t *testing.T) {
	t.Parallel()
	const setting = ". We are setting up the context for our chat.\nToday is a Friday.\nMy operating system is: linux"
	for harness, turns := range map[string][]string{
		"none":                 {},
		"Qwen Code":            {"U This is the Qwen Code" + setting, "A Got it. Thanks for the context!"},
		"a Qwen Code fork":     {"U This is the Sparkle CLI" + setting},
		"Gemini CLI":           {"U <session_context>\nThis is the Gemini CLI" + setting + "\n</session_context>"},
		"a command":            {"U <command-name>/review</command-name>\n<command-args></command-args>"},
		"a demonstration":      {"U Here is a demonstration of how to correctly accomplish this task.\nThought: look"},
		"aider":                {"U Here are summaries of some files present in my git repository.\na.go", "A Ok.", "U I have *added these files to the chat* so you can edit them.\na.go", "A Ok."},
		"aider, ask":           {"U I am working with you on code in a git repository.\nHere are summaries of some files present in my git repo.\na.go", "A Ok."},
		"aider, with examples": {"U Rename hello()", "A done", "U I switched to a new code base. Please don't consider the above files or try to edit them any longer.", "A Ok."},
	} {
		req := newConversation(t, append(turns, "U Round the total.", "A It rounds.", "U Thanks.")...)
		if got := req.Task(allItems); got != "Round the total." {
			t.Errorf("%s: Task = %q, want the user's first message", harness, got)
		}
	}
}

func TestTaskKeepsUserTextSimilarToTemplate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Please solve this issue: the total is wrong",
		"Fix this build file:\n<project>\n<task>\nrun\n</task>\n</project>",
		"Why does the prompt below fail?\n<user_query>\nhello\n</user_query>",
		"Explain <user_query> and <task>x</task> to me",
		"<task>run",
		"<tasks>run</tasks>",
		"<context",
		"This is the shop. We are setting up the context for our chat.Help",
		"Read the <context> first.\n<files></files>",
	} {
		if got := newConversation(t, "U "+text).Task(allItems); got != text {
			t.Errorf("Task = %q, want %q", got, text)
		}
	}
}

func TestTaskJoinsPartsWithoutTemplates(t *testing.T) {
	t.Parallel()
	req, err := wire.Parse(wire.Chat, []byte(`{"model":"m","messages":[{"role":"user","content":[
		{"type":"text","text":"This is the Qwen Code. We are setting up the context for our chat.\nToday is a Friday."},
		{"type":"text","text":"<user_query>\nRound the total.\n</user_query>"},
		{"type":"image_url","image_url":{"url":"data:,"}},
		{"type":"text","text":"Use the picture."}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := req.Task(allItems); got != "Round the total.\nUse the picture." {
		t.Errorf(`Task = %q, want "Round the total.\nUse the picture."`, got)
	}
	for n, want := range []string{"", "Round the total.\nUse the picture."} {
		if got := req.Task(n); got != want {
			t.Errorf("Task(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTaskReturnsHugeMessageUnchanged(t *testing.T) {
	t.Parallel()
	long := "New task:\n" + strings.Repeat("round ", 1<<18) + "the total."
	if got := newConversation(t, "U "+long).Task(allItems); got != long {
		t.Errorf("len(Task) = %d, want the whole message, %d bytes", len(got), len(long))
	}
}
