package detect_test

import (
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/wire"
)

func TestReadTurn(t *testing.T) {
	const done, offer = "Done. The cart now sums the items.", "I can move the helper too. Would you like me to do that?"
	for _, c := range []struct {
		words, previous string
		want            detect.Feeling
	}{
		{"Add a discount to the cart.", "", detect.Neutral},
		{"No, that's wrong.", "", detect.Neutral}, // nothing was answered yet
		{"no, that's wrong", done, detect.Rejection},
		{"that doesn't work", done, detect.Rejection},
		{"Still fails with the same error", done, detect.Rejection},
		{"it crashed when I clicked on pay", done, detect.Rejection},
		{"undo that please", done, detect.Rejection},
		{"wtf", done, detect.Rejection},
		{"Isso não funciona", done, detect.Rejection},
		{"das funktioniert nicht", done, detect.Rejection},
		{"不对", done, detect.Rejection},
		{"Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'", done, detect.Rejection},
		{"No, I don't want to be called back.", offer, detect.Rejection},
		{"no, use the other helper instead", done, detect.Correction},
		{"don't touch the tests", done, detect.Correction},
		{"Actually, put it into the model", done, detect.Correction},
		{"it should be a float", done, detect.Correction},
		{"I meant the second list", done, detect.Correction},
		{"you forgot the header", done, detect.Correction},
		{"ok, but make it a little shorter", done, detect.Correction},
		{"why did you delete the comment?", done, detect.Correction},
		{"Thanks, but it should be sorted", done, detect.Correction},
		{"yes", offer, detect.Approval},
		{"Yes please, go ahead!", offer, detect.Approval},
		{"go ahead", done, detect.Approval},
		{"do that", offer, detect.Approval},
		{"sounds good", offer, detect.Approval},
		{"perfect, that works", done, detect.Approval},
		{"ok", offer, detect.Approval},
		{"sim, pode fazer", offer, detect.Approval},
		{"はい", offer, detect.Approval},
		{"thanks!", done, detect.Thanks},
		{"Thank you so much", done, detect.Thanks},
		{"obrigado", done, detect.Thanks},
		{"danke schön", done, detect.Thanks},
		{"continue", done, detect.Neutral},
		{"Sure, my name is Ann Lee and my zip code is 12345.", "Could you please tell me your name and zip code?", detect.Neutral},
		{"ok, now read the README in full and tell me which module does the payments", done, detect.Neutral},
		{"how do I install it?", done, detect.Neutral},
		{"Don't worry about it", done, detect.Neutral},
		{"No problem", done, detect.Neutral},
		{"Actually, I changed my mind about the colour.", done, detect.Neutral},
		{"add a test for the error case", done, detect.Neutral},
	} {
		if got := detect.ReadTurn(c.words, c.words, c.previous); got.Feeling != c.want || got.Synthetic || got.Interrupt {
			t.Errorf("%q after %q: got %+v, want %s", c.words, c.previous, got, c.want)
		}
	}
}

func TestReadTurnOfHarnesses(t *testing.T) {
	for _, text := range []string{"<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>", "[Request interrupted by user]", "[Request interrupted by user for tool use]"} {
		if got := detect.ReadTurn(text, "", "x"); got.Feeling != detect.Rejection || !got.Interrupt || got.Synthetic {
			t.Errorf("%q: %+v", text, got)
		}
	}
	for _, words := range []string{
		"Continue from where you left off.", "What did we do so far?", "Continue if you have next steps, or stop and ask for clarification if you are unsure.",
		"The connection dropped mid-response. Resume directly where you stopped.", "Another language model started to solve this problem and produced a summary",
		"This session is being continued from a previous conversation that ran out of context. No, that's wrong.",
	} {
		if got := detect.ReadTurn(words, words, "x"); got.Feeling != detect.Neutral || !got.Synthetic {
			t.Errorf("%q: %+v, want a synthetic turn", words, got)
		}
	}
	if got := detect.ReadTurn("<system-reminder>no, wrong</system-reminder>", "", "x"); got.Feeling != detect.Neutral || !got.Synthetic {
		t.Errorf("a message without words of a person: %+v", got)
	}
}

func TestReadTurnTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words, previous := rapid.String().Draw(t, "words"), rapid.String().Draw(t, "previous")
		got := detect.ReadTurn(words, words, previous)
		switch got.Feeling {
		case detect.Approval, detect.Correction, detect.Rejection, detect.Thanks, detect.Neutral:
		default:
			t.Fatalf("%+v", got)
		}
		if got.Synthetic && got.Feeling != detect.Neutral {
			t.Fatalf("nobody spoke, and yet %+v", got)
		}
	})
}

func TestVerification(t *testing.T) {
	mk := func(cmd string) string { return jsonArgs("command", cmd) }
	for _, c := range []struct {
		name, args, text string
		kind             string
		passed           bool
	}{
		{"go test passes", mk("go test ./..."), "ok  \tshop/cart\t0.003s", "test", true},
		{"go test fails", mk("cd shop && go test ./..."), "--- FAIL: TestTotal (0.00s)\nFAIL\tshop/cart\t0.004s\nFAIL", "test", false},
		{"pytest passes", mk("python -m pytest -q"), "8 passed in 0.10s", "test", true},
		{"pytest fails", mk("uv run pytest"), "FAILED tests/test_a.py::test_b\n==== 1 failed, 2 passed in 0.1s ====", "test", false},
		{"jest", mk("CI=1 npx jest"), "Tests:       9 passed, 9 total", "test", true},
		{"npm script", mk("npm run lint"), "npm error code 1", "lint", false},
		{"npm t", mk("npm test -- --watch=false"), "Tests: 1 failed, 2 total\n\nCommand exited with code 1", "test", false},
		{"cargo build", mk("cargo build"), "error[E0425]: cannot find value `x`\nerror: could not compile `a`", "build", false},
		{"cargo clippy", mk("cargo clippy"), "Finished dev", "lint", true},
		{"make", mk("make"), "make: *** [all] Error 2", "build", false},
		{"make check", mk("make check"), "all fine", "lint", true},
		{"tsc is silent", mk("npx tsc --noEmit"), "(no output)", "build", true},
		{"eslint", mk("npx eslint ."), "✖ 2 problems (1 error, 1 warning)", "lint", false},
		{"ruff", mk("ruff check ."), "Found 3 errors.", "lint", false},
		{"ruff is happy", mk("ruff check ."), "All checks passed!", "lint", true},
		{"mypy", mk("mypy src"), "Found 2 errors in 1 file (checked 8 source files)", "build", false},
		{"exit code", jsonArgs("cmd", "pytest"), "Process exited with code 1\nOutput:\nsome words", "test", false},
		{"behind tail, told", mk("pytest | tail -1"), "==== 8 passed in 0.31s ====", "test", true},
		{"build and test: the test", mk("npm run build && npm test"), "ok\n<exit>", "test", true},
		{"gradle wrapper", mk("./gradlew test"), "BUILD FAILED in 3s", "test", false},
		{"behind head, not told", mk("pytest | head -1"), "==== test session starts ====", "", false},
		{"no such command", mk("pytest"), "bash: pytest: command not found", "", false},
		{"no such command, code", mk("pytest"), "sh: pytest\n\nCommand exited with code 127", "", false},
		{"refused", mk("pytest"), "exec command rejected by user", "", false},
		{"no verification", mk("ls tests"), "test_a.py", "", false},
		{"cat a test", mk("cat pytest.ini"), "[pytest]", "", false},
		{"go run", mk("go run ."), "FAIL", "", false},
	} {
		kind, passed, ok := detect.Verification("bash", c.args, c.text)
		if kind != c.kind || passed != c.passed || ok != (c.kind != "") {
			t.Errorf("%s: got %q %v %v, want %q %v", c.name, kind, passed, ok, c.kind, c.passed)
		}
	}
	if kind, passed, ok := detect.Verification("run_tests", `{}`, "Error: 2 tests failed"); kind != "test" || passed || !ok {
		t.Errorf("a tool of its own: %q %v %v", kind, passed, ok)
	}
}

func TestSignals(t *testing.T) {
	msgs := chat([]did{bash("make", "x"), bash("npm test", "npm error code 1")})
	msgs = append(msgs, obj{"role": "user", "content": "no, that's wrong"})
	got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": msgs}), nil)
	if len(got) != 2 || got[0].Rule != "verify:test" || got[0].Tier != 2 || got[0].Feeling != detect.Rejection || got[0].CallID != "c1" ||
		!got[1].Sentiment || got[1].Tier != 3 || got[1].Feeling != detect.Rejection {
		t.Errorf("%+v", got)
	}
	refused := chat([]did{bash("rm -r build", "The user doesn't want to proceed with this tool use. The tool use was rejected.")})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": refused}), nil); len(got) != 1 || got[0].Feeling != detect.Rejection || got[0].Sentiment {
		t.Errorf("a person's refusal: %+v", got)
	}
	headless := chat([]did{bash("rm -r build", "This command requires approval")})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": headless}), nil); len(got) != 0 {
		t.Errorf("nobody was there to refuse: %+v", got)
	}
	thanks := append(chat([]did{bash("make", "x")}), obj{"role": "assistant", "content": "done"}, obj{"role": "user", "content": "add a test"})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": thanks}), nil); len(got) != 0 {
		t.Errorf("a new task is no feedback: %+v", got)
	}
}

func TestSide(t *testing.T) {
	tools := []any{obj{"type": "function", "function": obj{"name": "bash"}}}
	user := func(s string) obj { return obj{"role": "user", "content": s} }
	for _, c := range []struct {
		name string
		body obj
		want string
	}{
		{"opencode title", obj{"messages": []any{obj{"role": "system", "content": "You are a title generator. You output ONLY a thread title."}, user("Generate a title for this conversation:\n"), user("fix the cart")}}, "title"},
		{"codex compaction", obj{"messages": []any{user("fix the cart"), obj{"role": "assistant", "content": "ok"}, user("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.")}}, "summary"},
		{"claude compaction keeps its tools", obj{"tools": tools, "messages": []any{user("fix the cart"), obj{"role": "assistant", "content": "ok"}, obj{"role": "user", "content": []any{
			obj{"type": "text", "text": "go on"}, obj{"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."},
		}}}}, "summary"},
		{"copilot compaction keeps its tools", obj{"tools": tools, "messages": []any{user("fix the cart"), obj{"role": "assistant", "content": "ok"}, user("Please create a detailed summary of the conversation so far. The history is being compacted so moving forward, all conversation history will be removed.")}}, "summary"},
		{"a person's summary keeps its lessons", obj{"tools": tools, "messages": []any{user("Please create a detailed summary of the conversation so far.")}}, ""},
		{"some app's title", obj{"messages": []any{user("Create a short title for the following conversation: hello")}}, "title"},
		{"some app's summary", obj{"messages": []any{obj{"role": "system", "content": "Summarize the conversation so far in two sentences."}, user("...")}}, "summary"},
		{"goose's name for a session", obj{"messages": []any{obj{"role": "system", "content": "Reply with only a description in four words or less"}, user("Here are the first few user messages:\nfix the cart\n\nBased on the conversation so far, provide a concise description of this session in 4 words or less.")}}, "title"},
		{"crush's summary", obj{"messages": []any{obj{"role": "system", "content": "You are summarizing a conversation to preserve context for continuing work later."}, user("fix the cart")}}, "summary"},
		{"OpenHands' condenser", obj{"messages": []any{user("You are maintaining a context-aware state summary for an interactive agent. You will be given a list of events.")}}, "summary"},
		{"LangChain's summary", obj{"messages": []any{user("<role>\nContext Extraction Assistant\n</role>\n\n<primary_objective>\nYour sole objective is to extract the highest quality context.")}}, "summary"},
		{"aider's commit", obj{"messages": []any{obj{"role": "system", "content": "You are an expert software engineer that generates concise, one-line Git commit messages based on the provided diffs."}, user("# Context: ...")}}, "commit"},
		{"some editor's commit", obj{"messages": []any{obj{"role": "system", "content": "You are an expert at writing Git commits. Your job is to write a short clear commit message."}, user("diff")}}, "commit"},
		{"a person's commit", obj{"messages": []any{user("write a commit message for this diff")}}, ""},
		{"main", obj{"tools": tools, "messages": []any{user("fix the cart")}}, ""},
		{"a task about titles", obj{"tools": tools, "messages": []any{user("generate a title for the conversation page of our app")}}, ""},
		{"a task about summaries", obj{"tools": tools, "messages": []any{user("write a function that can summarize the conversation")}}, ""},
		{"plain chat", obj{"messages": []any{user("what is a title?")}}, ""},
		{"old compaction is history", obj{"tools": tools, "messages": []any{user("CRITICAL: Respond with TEXT ONLY."), obj{"role": "assistant", "content": "summary"}, user("go on")}}, ""},
	} {
		if got := detect.Side(parse(t, wire.Chat, c.body)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWorksWithTools(t *testing.T) {
	for product, want := range map[string]bool{"codex_exec": true, "claude-cli": true, "QwenCode": true, "opencode": true, "OpenAI": false, "langchainjs-openai": false, "Agents": false, "ai-sdk": false, "": false} {
		if detect.WorksWithTools(product) != want {
			t.Errorf("%q: want %v", product, want)
		}
	}
}
