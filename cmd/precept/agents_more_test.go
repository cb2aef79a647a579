package main

import (
	"fmt"
	"path/filepath"
)

// otherAgents are further agents that people run.
func otherAgents() []agent {
	return []agent{
		cline(),
		copilot("chat", "/v1"), copilot("responses", "/v1", "COPILOT_PROVIDER_WIRE_API=responses"), copilot("messages", "", "COPILOT_PROVIDER_TYPE=anthropic"),
		continueCLI(),
	}
}

// cline is resumed in a terminal only.
func cline() agent {
	return agent{
		name: "cline", single: true, overflows: true,
		prepare: func(b *box) {
			b.env = append(b.env, "CLINE_SESSION_BACKEND_MODE=local") // else it leaves a daemon behind
			b.call([]string{b.path("cline", ".bin/cline"), "auth", "openai", "-k", "sk-test", "-m", "mock-model", "-b", b.base + "/v1"}, nil)
		},
		ask: func(b *box, words string, _ bool) []string {
			return []string{b.path("cline", ".bin/cline"), "--json", words}
		},
	}
}

func copilot(wire, suffix string, env ...string) agent {
	return agent{
		name: "copilot-" + wire,
		prepare: func(b *box) {
			b.env = append(b.env, append(env, "COPILOT_PROVIDER_BASE_URL="+b.base+suffix, "COPILOT_PROVIDER_API_KEY=sk-test",
				"COPILOT_MODEL=mock-model", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false")...)
		},
		ask: func(b *box, words string, again bool) []string {
			argv := []string{b.path("copilot", ".bin/copilot"), "--allow-all-tools"}
			if again {
				argv = append(argv, "--continue")
			}
			return append(argv, "-p", words)
		},
	}
}

func continueCLI() agent {
	return agent{
		name: "continue",
		prepare: func(b *box) {
			b.env = append(b.env, "CONTINUE_TELEMETRY_ENABLED=0")
			b.file(".continue/config.yaml", fmt.Sprintf("name: mine\nversion: 1.0.0\nschema: v1\nmodels:\n  - name: mock\n    provider: openai\n    model: mock-model\n    apiBase: %s\n    apiKey: sk-test\n    roles: [chat]\n    capabilities: [tool_use]\n", b.base+"/v1"))
		},
		ask: func(b *box, words string, again bool) []string {
			argv := []string{b.path("continue", ".bin/cn"), "--config", filepath.Join(b.home, ".continue/config.yaml"), "--auto"}
			if again {
				argv = append(argv, "--resume")
			}
			return append(argv, "-p", words)
		},
	}
}

// pythonAgents are programs on Python's frameworks.
func pythonAgents() []agent {
	program := func(name, folder, file string, env ...string) agent {
		return agent{
			name: name, inProcess: true,
			prepare: func(b *box) {
				b.env = append(b.env, "OPENAI_API_KEY=sk-test", "ANTHROPIC_API_KEY=sk-test", "LANGSMITH_TRACING=false", "PYTHONDONTWRITEBYTECODE=1",
					"OPENAI_BASE_URL="+b.base+"/v1", "OPENAI_API_BASE="+b.base+"/v1", "ANTHROPIC_BASE_URL="+b.base)
				b.env = append(b.env, env...)
			},
			ask: func(b *box, words string, _ bool) []string {
				here, err := filepath.Abs(filepath.Join("testdata", "agents", file))
				if err != nil {
					b.t.Fatal(err)
				}
				return []string{filepath.Join(b.programs, folder, "bin", "python"), here, words, followUp}
			},
		}
	}
	small := program("smolagents", "smolagents", "smolagents_agent.py")
	small.textual = true
	return []agent{
		program("langgraph", "langgraph", "langgraph_agent.py"),
		program("pydantic-ai-chat", "pydantic-ai", "pydantic_agent.py", "API=chat"),
		program("pydantic-ai-responses", "pydantic-ai", "pydantic_agent.py", "API=responses"),
		program("pydantic-ai-messages", "pydantic-ai", "pydantic_agent.py", "API=messages"),
		program("llamaindex", "llamaindex", "llamaindex_agent.py"),
		small,
	}
}
