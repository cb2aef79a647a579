package agents

import (
	"fmt"
	"path/filepath"
	"strings"
)

// agent is one row in the results matrix.
type agent struct {
	name    string
	prepare func(b *sandbox)
	// ask returns the command for a turn. If inProcess is true, a single command runs both turns.
	ask                func(b *sandbox, words string, resume bool) []string
	inProcess          bool
	program            string                            // path of the program; if it is missing, the row is skipped
	cannotResume       bool                              // the agent needs a terminal to resume a conversation
	editsWithoutTools  bool                              // the model edits files and calls no tool
	formatReply        func(command, text string) string // formats a command, or the answer if command is empty
	compactMessage     string                            // message that makes the agent shorten the history; if empty, the agent decides
	compactsOnOverflow bool                              // shortens the history when the API refuses a request as too long
	triesWebSocket     bool
	dropsFailedTurn    bool   // the turn after a failed turn is a new conversation
	rulesFile          string // name of the rules file, such as CLAUDE.md; "" if none
	sendsDeltas        bool   // the provider keeps the history
}

// agents returns all rows, most important first.
func agents(home string) []agent {
	rows := []agent{
		openCode("chat", "@ai-sdk/openai-compatible"), openCode("responses", "@ai-sdk/openai"), openCode("messages", "@ai-sdk/anthropic"),
		qwen(),
		pi("chat", "openai-completions", "/v1"), pi("responses", "openai-responses", "/v1"), pi("messages", "anthropic-messages", ""),
		codex("provider"), codex("builtin"), codex("default"), claude(),
	}
	rows = append(rows, otherAgents()...)
	rows = append(rows, programs()...)
	return append(rows, pythonAgents(home)...)
}

func openCode(wire, provider string) agent {
	return agent{
		name: "opencode-" + wire, rulesFile: "AGENTS.md",
		prepare: func(b *sandbox) {
			b.env = append(b.env, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_SHARE=1")
			b.writeFile(".config/opencode/opencode.json", fmt.Sprintf(`{"autoupdate": false, "share": "disabled", "enabled_providers": ["mine"],
				"provider": {"mine": {"npm": %q, "name": "mine", "options": {"baseURL": %q, "apiKey": "sk-test"},
				"models": {"mock-model": {"name": "mock-model", "tool_call": true, "limit": {"context": 128000, "output": 8000}}}}}}`, provider, b.base+"/v1"))
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("opencode", ".bin/opencode"), "run", "--auto", "-m", "mine/mock-model", "--format", "json"}
			if resume {
				argv = append(argv, "-c")
			}
			return append(argv, text)
		},
	}
}

func qwen() agent {
	return agent{
		name: "qwen", rulesFile: "QWEN.md",
		prepare: func(b *sandbox) {
			b.env = append(b.env, "OPENAI_API_KEY=sk-test", "OPENAI_MODEL=mock-model", "OPENAI_BASE_URL="+b.base+"/v1", "QWEN_TELEMETRY_ENABLED=false")
			b.writeFile(".qwen/settings.json", `{"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
				"general": {"enableAutoUpdate": false}, "security": {"auth": {"selectedType": "openai"}}}`)
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("qwen", ".bin/qwen"), "--yolo", "--auth-type", "openai"}
			if resume {
				argv = append(argv, "--continue")
			}
			return append(argv, "-p", text)
		},
	}
}

// pi returns the pi agent for an API. suffix is the part of the path that pi expects in the base URL.
func pi(wire, api, suffix string) agent {
	return agent{
		name: "pi-" + wire, rulesFile: "AGENTS.md", compactsOnOverflow: true,
		prepare: func(b *sandbox) {
			b.env = append(b.env, "PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "PI_TELEMETRY=0")
			b.writeFile(".pi/agent/models.json", fmt.Sprintf(`{"providers": {"mine": {"baseUrl": %q, "api": %q, "apiKey": "sk-test",
				"models": [{"id": "mock-model", "contextWindow": 128000, "maxTokens": 8000}]}}}`, b.base+suffix, api))
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("pi", ".bin/pi"), "--provider", "mine", "--model", "mock-model"}
			if resume {
				argv = append(argv, "-c")
			}
			return append(argv, "-p", text)
		},
	}
}

// codex returns Codex in one of three modes. In modes "provider" and "default", precept is a custom provider. In mode
// "builtin", precept's address replaces the address of the built-in provider. Only mode "default" uses Codex's default
// model.
func codex(mode string) agent {
	return agent{
		name: "codex-" + mode, rulesFile: "AGENTS.md", triesWebSocket: mode == "builtin",
		prepare: func(b *sandbox) {
			b.env = append(b.env, "CODEX_HOME="+filepath.Join(b.home, ".codex"), "OPENAI_API_KEY=sk-test")
			common := "check_for_update_on_startup = false\n"
			if mode != "default" { // with the default model, Codex sends the tools in an input item
				common += "model = \"gpt-5-codex\"\n"
			} else { // the default model's context is larger than the token counts in the test script
				common += "model_auto_compact_token_limit = 200000\n"
			}
			if mode == "builtin" {
				b.writeFile(".codex/config.toml", common+fmt.Sprintf("openai_base_url = %q\n[analytics]\nenabled = false\n", b.base+"/v1"))
				b.writeFile(".codex/auth.json", `{"OPENAI_API_KEY": "sk-test", "auth_mode": "apikey"}`)
				return
			}
			b.writeFile(".codex/config.toml", common+fmt.Sprintf("model_provider = \"mine\"\n[analytics]\nenabled = false\n[model_providers.mine]\nname = \"mine\"\nbase_url = %q\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n", b.base+"/v1"))
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("codex", ".bin/codex"), "exec", "--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox"}
			if resume {
				argv = append(argv, "resume", "--last")
			}
			return append(argv, text)
		},
	}
}

func claude() agent {
	return agent{
		name: "claude", rulesFile: "CLAUDE.md", compactMessage: "/compact",
		prepare: func(b *sandbox) {
			b.env = append(b.env, "ANTHROPIC_BASE_URL="+b.base, "ANTHROPIC_API_KEY=sk-ant-test", "DISABLE_AUTOUPDATER=1",
				"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1")
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("claude", ".bin/claude"), "-p", "--output-format", "stream-json", "--verbose", "--allowedTools", "Bash"}
			if resume {
				argv = append(argv, "--continue")
			}
			return append(argv, "--", text)
		},
	}
}

// programs returns small programs that use an SDK or a framework. Each program runs both turns in one process.
func programs() []agent {
	// delta means that the provider keeps the history, so a request contains only the new messages.
	script := func(name, folder, file string, delta bool, env ...string) agent {
		return agent{
			name: name, inProcess: true, sendsDeltas: delta,
			prepare: func(b *sandbox) {
				b.env = append(b.env, "OPENAI_API_KEY=sk-test", "ANTHROPIC_API_KEY=sk-test", "LANGCHAIN_TRACING_V2=false", "MODULES="+b.modulePath(folder, ""),
					"OPENAI_BASE_URL="+b.base+"/v1", "ANTHROPIC_BASE_URL="+b.base)
				for _, e := range env {
					b.env = append(b.env, strings.Replace(e, "=URL", "="+b.base, 1))
				}
			},
			ask: func(b *sandbox, text string, _ bool) []string {
				scriptPath, err := filepath.Abs(filepath.Join("testdata", "agents", file))
				if err != nil {
					b.t.Fatal(err)
				}
				program := b.modulePath("node22", "node/bin/node")
				if filepath.Ext(file) == ".py" {
					program = installedProgram(b.t, ".cache/venv/bin/python", "make e2e-deps installs it")
				}
				return []string{program, scriptPath, text, followUp}
			},
		}
	}
	return []agent{
		script("openai-chat", "oai", "openai-chat.mjs", false),
		script("openai-path", "oai", "openai-chat.mjs", false, "OPENAI_BASE_URL=URL/p/agent=builder,role=reviewer/v1"),
		script("openai-responses", "oai", "openai-responses.mjs", false),
		script("openai-previous", "oai", "openai-responses.mjs", true, "STORED=1"),
		script("agents-js-chat", "oai", "openai-agents.mjs", false, "API=chat_completions"),
		script("agents-js-responses", "oai", "openai-agents.mjs", false, "API=responses"),
		script("aisdk-compatible", "aisdk", "aisdk.mjs", false, "API=compatible"),
		script("aisdk-responses", "aisdk", "aisdk.mjs", false, "API=responses"),
		script("aisdk-anthropic", "aisdk", "aisdk.mjs", false, "API=anthropic", "ANTHROPIC_BASE_URL=URL/v1"),
		script("langchain-chat", "langchain", "langchain.mjs", false, "API=chat"),
		script("langchain-responses", "langchain", "langchain.mjs", false, "API=responses"),
		script("python-openai", "oai", "responses_agent.py", false),
		script("python-anthropic", "oai", "anthropic_agent.py", false),
	}
}

const followUp = "Precept e2e follow-up: no, that is wrong. Use the other script instead and try again."
