package agents

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// otherAgents returns agents with a command line, in addition to those in list_test.go.
func otherAgents() []agent {
	return []agent{
		cline(),
		copilot("chat", "/v1"), copilot("responses", "/v1", "COPILOT_PROVIDER_WIRE_API=responses"), copilot("messages", "", "COPILOT_PROVIDER_TYPE=anthropic"),
		continueCLI(),
	}
}

func cline() agent {
	return agent{
		name: "cline", rulesFile: ".clinerules/crew.md", cannotResume: true, compactsOnOverflow: true,
		prepare: func(b *sandbox) {
			b.env = append(b.env, "CLINE_SESSION_BACKEND_MODE=local") // otherwise a daemon would stay running
			b.call([]string{b.modulePath("cline", ".bin/cline"), "auth", "openai", "-k", "sk-test", "-m", "mock-model", "-b", b.base + "/v1"}, nil)
		},
		ask: func(b *sandbox, text string, _ bool) []string {
			return []string{b.modulePath("cline", ".bin/cline"), "--json", text}
		},
	}
}

func copilot(wire, suffix string, env ...string) agent {
	return agent{
		name: "copilot-" + wire, rulesFile: ".github/copilot-instructions.md",
		prepare: func(b *sandbox) {
			b.env = append(b.env, append(env, "COPILOT_PROVIDER_BASE_URL="+b.base+suffix, "COPILOT_PROVIDER_API_KEY=sk-test",
				"COPILOT_MODEL=mock-model", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false")...)
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("copilot", ".bin/copilot"), "--allow-all-tools"}
			if resume {
				argv = append(argv, "--continue")
			}
			return append(argv, "-p", text)
		},
	}
}

func continueCLI() agent {
	return agent{
		name: "continue", rulesFile: "AGENTS.md",
		prepare: func(b *sandbox) {
			b.env = append(b.env, "CONTINUE_TELEMETRY_ENABLED=0")
			b.writeFile(".continue/config.yaml", fmt.Sprintf("name: mine\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: mock\n    provider: openai\n    model: mock-model\n    apiBase: %s\n    apiKey: sk-test\n    roles: [chat]\n    capabilities: [tool_use]\n", b.base+"/v1"))
		},
		ask: func(b *sandbox, text string, resume bool) []string {
			argv := []string{b.modulePath("continue", ".bin/cn"), "--config", filepath.Join(b.home, ".continue/config.yaml"), "--auto"}
			if resume {
				argv = append(argv, "--resume")
			}
			return append(argv, "-p", text)
		},
	}
}

// pythonAgents returns programs for Python frameworks that tools/agents.sh installs in home.
func pythonAgents(home string) []agent {
	program := func(name, folder, file string, env ...string) agent {
		return agent{
			name: name, inProcess: true, program: filepath.Join(home, folder, "bin", "python"),
			prepare: func(b *sandbox) {
				b.env = append(b.env, "OPENAI_API_KEY=sk-test", "ANTHROPIC_API_KEY=sk-test", "LANGSMITH_TRACING=false", "PYTHONDONTWRITEBYTECODE=1",
					"OPENAI_BASE_URL="+b.base+"/v1", "OPENAI_API_BASE="+b.base+"/v1", "ANTHROPIC_BASE_URL="+b.base)
				b.env = append(b.env, env...)
			},
			ask: func(b *sandbox, text string, _ bool) []string {
				scriptPath, err := filepath.Abs(filepath.Join("testdata", "agents", file))
				if err != nil {
					b.t.Fatal(err)
				}
				return []string{filepath.Join(b.programs, folder, "bin", "python"), scriptPath, text, followUp}
			},
		}
	}
	rows := []agent{
		program("langgraph", "langgraph", "langgraph_agent.py"),
		program("pydantic-ai-chat", "pydantic-ai", "pydantic_agent.py", "API=chat"),
		program("pydantic-ai-responses", "pydantic-ai", "pydantic_agent.py", "API=responses"),
		program("pydantic-ai-messages", "pydantic-ai", "pydantic_agent.py", "API=messages"),
		program("llamaindex", "llamaindex", "llamaindex_agent.py"),
		program("smolagents", "smolagents", "smolagents_agent.py"),
	}
	for _, f := range frameworks() {
		row := program(f.name, f.folder, f.file, f.env...)
		if f.singleTask { // drop the last argument, the follow-up
			ask := row.ask
			row.ask = func(b *sandbox, text string, resume bool) []string { return ask(b, text, resume)[:3] }
		}
		row.formatReply, row.editsWithoutTools, row.sendsDeltas, row.dropsFailedTurn, row.rulesFile = f.formatReply, f.editsWithoutTools, f.sendsDeltas, f.dropsFailedTurn, f.rulesFile
		rows = append(rows, row)
	}
	return rows
}

// framework describes a Python program that uses an agent framework. tools/agents.sh installs the framework in folder.
type framework struct {
	name, folder, file string
	env                []string
	singleTask         bool // the program cannot continue with the follow-up
	sendsDeltas        bool
	dropsFailedTurn    bool
	editsWithoutTools  bool
	rulesFile          string
	formatReply        func(command, text string) string
}

func frameworks() []framework {
	const stream = "STREAM=1"
	local := "LITELLM_LOCAL_MODEL_COST_MAP=True" // otherwise litellm downloads a price list
	return []framework{
		{name: "openai-python", folder: "sdks", file: "openai_chat_agent.py"},
		{name: "openai-python-stream", folder: "sdks", file: "openai_chat_agent.py", env: []string{stream}},
		{name: "openai-agents-chat", folder: "openai-agents", file: "openai_agents_agent.py", env: []string{"API=chat_completions", "OPENAI_AGENTS_DISABLE_TRACING=1"}},
		{name: "openai-agents-responses", folder: "openai-agents", file: "openai_agents_agent.py", env: []string{"API=responses", stream, "OPENAI_AGENTS_DISABLE_TRACING=1"}},
		{name: "langgraph-stream", folder: "langgraph", file: "langgraph_agent.py", env: []string{stream}},
		{name: "langgraph-responses", folder: "langgraph", file: "langgraph_agent.py", env: []string{"API=responses", stream}},
		{name: "langgraph-messages", folder: "langgraph", file: "langgraph_agent.py", env: []string{"API=messages"}},
		{name: "deepagents", folder: "deepagents", file: "langgraph_agent.py", env: []string{"DEEP=1"}},
		{name: "deepagents-messages", folder: "deepagents", file: "langgraph_agent.py", env: []string{"DEEP=1", "API=messages", stream}},
		{name: "autogen", folder: "autogen", file: "autogen_agent.py"},
		{name: "autogen-stream", folder: "autogen", file: "autogen_agent.py", env: []string{stream}},
		{name: "ag2", folder: "ag2", file: "ag2_agent.py", env: []string{"API=chat"}},
		{name: "ag2-responses", folder: "ag2", file: "ag2_agent.py", env: []string{"API=responses", stream}},
		{name: "agno", folder: "agno", file: "agno_agent.py", env: []string{"API=chat"}},
		{name: "agno-responses", folder: "agno", file: "agno_agent.py", env: []string{"API=responses", stream}, dropsFailedTurn: true},
		{name: "agno-messages", folder: "agno", file: "agno_agent.py", env: []string{"API=messages", stream}, dropsFailedTurn: true},
		{name: "litellm", folder: "litellm", file: "litellm_agent.py", env: []string{"API=chat", local}},
		{name: "litellm-messages", folder: "litellm", file: "litellm_agent.py", env: []string{"API=messages", stream, local}},
		{name: "strands", folder: "strands", file: "strands_agent.py", env: []string{"API=chat"}},
		{name: "strands-messages", folder: "strands", file: "strands_agent.py", env: []string{"API=messages"}},
		{name: "haystack", folder: "haystack", file: "haystack_agent.py", env: []string{"HAYSTACK_TELEMETRY_ENABLED=False"}},
		{name: "haystack-stream", folder: "haystack", file: "haystack_agent.py", env: []string{stream, "HAYSTACK_TELEMETRY_ENABLED=False"}},
		{name: "semantic-kernel", folder: "semantic-kernel", file: "semantic_kernel_agent.py"},
		{name: "semantic-kernel-stream", folder: "semantic-kernel", file: "semantic_kernel_agent.py", env: []string{stream}},
		{name: "google-adk", folder: "google-adk", file: "adk_agent.py", env: []string{local}},
		{name: "google-adk-stream", folder: "google-adk", file: "adk_agent.py", env: []string{stream, local}},
		{name: "agent-framework", folder: "agent-framework", file: "framework_agent.py", env: []string{"API=chat"}},
		{name: "agent-framework-responses", folder: "agent-framework", file: "framework_agent.py", env: []string{"API=responses", stream}, sendsDeltas: true},
		{name: "crewai", folder: "crewai", file: "crewai_agent.py", env: []string{"CREWAI_DISABLE_TELEMETRY=true", "CREWAI_TRACING_ENABLED=false", "OTEL_SDK_DISABLED=true", local}, singleTask: true},
		{name: "openhands", folder: "openhands", file: "openhands_agent.py", env: []string{"OPENHANDS_SUPPRESS_BANNER=1", local}},
		{name: "claude-agent-sdk", folder: "claude-agent-sdk", file: "claude_sdk_agent.py", env: []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}},
		{name: "mini-swe-agent", folder: "mini-swe", file: "mini_swe_agent.py", env: []string{local, "MSWEA_SILENT_STARTUP=1"}, singleTask: true},
		{name: "mini-swe-agent-text", folder: "mini-swe", file: "mini_swe_agent.py", env: []string{local, "MSWEA_SILENT_STARTUP=1", "TEXT=1"}, singleTask: true, formatReply: formatMiniSWE},
		{name: "camel", folder: "camel", file: "camel_agent.py"},
		{name: "gptme", folder: "gptme", file: "gptme_agent.py"},
		{name: "dspy", folder: "dspy", file: "dspy_agent.py", env: []string{local}, singleTask: true, formatReply: formatDSPy},
		{name: "smolagents-code", folder: "smolagents", file: "smolagents_code_agent.py", formatReply: formatCode},
		{name: "aider", folder: "aider", file: "aider_agent.py", env: []string{local, stream}, editsWithoutTools: true, rulesFile: "CONVENTIONS.md", formatReply: func(_, text string) string { return "It is as it was. " + text }},
	}
}

func formatMiniSWE(command, text string) string {
	if command == "" {
		command = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
	}
	return text + "\n\n```mswea_bash_command\n" + command + "\n```"
}

func formatCode(command, text string) string {
	if command == "" {
		return "Thought: " + text + "\n<code>\nfinal_answer(\"it is told\")\n</code>"
	}
	return "Thought: " + text + "\n<code>\nprint(bash(" + strconv.Quote(command) + "))\n</code>"
}

func formatDSPy(command, text string) string {
	tool, args := "finish", "{}"
	if command != "" {
		tool, args = "bash", `{"command": `+strconv.Quote(command)+`}`
	}
	return "[[ ## next_thought ## ]]\n" + text + "\n\n[[ ## next_tool_name ## ]]\n" + tool + "\n\n[[ ## next_tool_args ## ]]\n" + args +
		"\n\n[[ ## reasoning ## ]]\n" + text + "\n\n[[ ## answer ## ]]\n" + text + "\n\n[[ ## completed ## ]]"
}
