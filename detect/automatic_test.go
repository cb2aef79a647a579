package detect_test

import (
	"testing"

	"precept/detect"
	"precept/internal/wire"
)

// opencode's run refuses in a person's words, with nobody there.
func TestRunRefusesByItself(t *testing.T) {
	const (
		rejected = "The user rejected permission to use this specific tool call."
		because  = "The user rejected permission to use this specific tool call with the following feedback: smaller steps"
		gone     = "The user dismissed this question"
	)
	offered := func(names ...string) (tools []any) {
		for _, n := range names {
			tools = append(tools, obj{"type": "function", "function": obj{"name": n}})
		}
		return tools
	}
	run, tui, some := offered("bash", "edit", "todowrite"), offered("bash", "edit", "question", "todowrite"), offered("bash")
	for _, c := range []struct {
		name   string
		tools  []any
		task   string
		result string
		want   int
	}{
		{"run, which can ask nobody", run, "tidy", rejected, 0},
		{"run with the tools of a person's own", some, `"tidy the build"`, rejected, 0},
		{"a person at the terminal", tui, "tidy the build", rejected, 1},
		{"tools that say nothing", some, "tidy the build", rejected, 1},
		{"quotes inside a task", some, `"tidy" and "build"`, rejected, 1},
		{"a person's words", run, `"tidy the build"`, because, 1},
		{"a question put to a person", tui, "tidy the build", gone, 1},
		{
			"another agent's person", run, "tidy the build",
			"The user doesn't want to proceed with this tool use.", 1,
		},
	} {
		msgs := chat([]did{bash("rm -r build", c.result)})
		msgs[0] = obj{"role": "user", "content": c.task}
		msgs = append(msgs, obj{"role": "user", "content": "and now the tests"})
		got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"tools": c.tools, "messages": msgs}), nil)
		if len(got) != c.want {
			t.Errorf("%s: %+v, want %d signals", c.name, got, c.want)
		}
	}
}
