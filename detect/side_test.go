package detect_test

import (
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

// A side request is an agent's own housekeeping, such as asking for a title.
func TestSideRequestKind(t *testing.T) {
	tools := []any{obj{"type": "function", "function": obj{"name": "bash"}}}
	userMessage := func(s string) obj { return obj{"role": "user", "content": s} }
	for _, tc := range []struct {
		name string
		body obj
		want string
	}{
		{
			"opencode title",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "You are a title generator. You output ONLY a thread title.",
					},
					userMessage("Generate a title for this conversation:\n"), userMessage("fix the cart"),
				},
			},
			"title",
		},
		{
			"codex compaction",
			obj{
				"messages": []any{
					userMessage("fix the cart"),
					obj{"role": "assistant", "content": "ok"},
					userMessage(
						"You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.",
					),
				},
			},
			"summary",
		},
		{"claude compaction with tools", obj{"tools": tools, "messages": []any{userMessage("fix the cart"), obj{"role": "assistant", "content": "ok"}, obj{"role": "user", "content": []any{
			obj{"type": "text", "text": "go on"}, obj{
				"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
			},
		}}}}, "summary"},
		{
			"copilot compaction with tools",
			obj{
				"tools": tools,
				"messages": []any{
					userMessage("fix the cart"),
					obj{"role": "assistant", "content": "ok"},
					userMessage(
						"Please create a detailed summary of the conversation so far. The history is being compacted so moving forward, all conversation history will be removed.",
					),
				},
			},
			"summary",
		},
		{
			"a person asks for a summary",
			obj{
				"tools": tools,
				"messages": []any{
					userMessage("Please create a detailed summary of the conversation so far."),
				},
			},
			"",
		},
		{
			"title request by an unknown app",
			obj{
				"messages": []any{
					userMessage("Create a short title for the following conversation: hello"),
				},
			},
			"title",
		},
		{
			"summary request by an unknown app",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "Summarize the conversation so far in two sentences.",
					},
					userMessage("..."),
				},
			},
			"summary",
		},
		{
			"goose session name",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "Reply with only a description in four words or less",
					},
					userMessage(
						"Here are the first few user messages:\nfix the cart\n\nBased on the conversation so far, provide a concise description of this session in 4 words or less.",
					),
				},
			},
			"title",
		},
		{
			"crush summary",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "You are summarizing a conversation to preserve context for continuing work later.",
					},
					userMessage("fix the cart"),
				},
			},
			"summary",
		},
		{
			"OpenHands condenser",
			obj{
				"messages": []any{
					userMessage(
						"You are maintaining a context-aware state summary for an interactive agent. You will be given a list of events.",
					),
				},
			},
			"summary",
		},
		{
			"LangChain summary",
			obj{
				"messages": []any{
					userMessage(
						"<role>\nContext Extraction Assistant\n</role>\n\n<primary_objective>\nYour sole objective is to extract the highest quality context.",
					),
				},
			},
			"summary",
		},
		{
			"aider commit message",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "You are an expert software engineer that generates concise, one-line Git commit messages based on the provided diffs.",
					},
					userMessage("# Context: ..."),
				},
			},
			"commit",
		},
		{
			"commit message request by an unknown editor",
			obj{
				"messages": []any{
					obj{
						"role":    "system",
						"content": "You are an expert at writing Git commits. Your job is to write a short clear commit message.",
					},
					userMessage("diff"),
				},
			},
			"commit",
		},
		{
			"a person asks for a commit message",
			obj{"messages": []any{userMessage("write a commit message for this diff")}},
			"",
		},
		{"a coding task", obj{"tools": tools, "messages": []any{userMessage("fix the cart")}}, ""},
		{
			"a task about titles",
			obj{
				"tools":    tools,
				"messages": []any{userMessage("generate a title for the conversation page of our app")},
			},
			"",
		},
		{
			"a task about summaries",
			obj{
				"tools":    tools,
				"messages": []any{userMessage("write a function that can summarize the conversation")},
			},
			"",
		},
		{"plain chat", obj{"messages": []any{userMessage("what is a title?")}}, ""},
		{
			"a compaction earlier in the history",
			obj{
				"tools": tools,
				"messages": []any{
					userMessage("CRITICAL: Respond with TEXT ONLY."),
					obj{"role": "assistant", "content": "summary"},
					userMessage("go on"),
				},
			},
			"",
		},
	} {
		if got := detect.SideRequestKind(parse(t, wire.Chat, tc.body)); got != tc.want {
			t.Errorf("%s: SideRequestKind = %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestAlwaysSendsTools(t *testing.T) {
	for product, want := range map[string]bool{"codex_exec": true, "claude-cli": true, "QwenCode": true, "opencode": true, "OpenAI": false, "langchainjs-openai": false, "Agents": false, "ai-sdk": false, "": false} {
		if got := detect.AlwaysSendsTools(product); got != want {
			t.Errorf("AlwaysSendsTools(%q) = %v, want %v", product, got, want)
		}
	}
}
