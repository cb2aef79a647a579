package wire_test

import (
	"strings"
	"testing"

	"precept/internal/wire"
)

// mini-SWE-agent's template around the user's request.
const (
	miniHead = "Please solve this issue: "
	miniTail = "\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n## Steps\n\n1. Run your script again."
)

func TestUserRequestRemovesTemplates(t *testing.T) {
	t.Parallel()
	const swe = "I've uploaded a repository. Consider the following PR description:\n\n<pr_description>\n"
	for name, tc := range map[string]struct{ message, want string }{
		"no template":            {"Round the total.", "Round the total."},
		"template":               {miniHead + "Round the total." + miniTail, "Round the total."},
		"template without task":  {miniHead + miniTail, ""},
		"element without task":   {"<task>\n</task>\n\n# Keep a list", ""},
		"preamble":               {"This is the Qwen Code. We are setting up the context for our chat.\nGrep is installed.", ""},
		"end of examples":        {"I switched to a new code base. Please don't consider the above files or try to edit them any longer.", ""},
		"template in a template": {swe + miniHead + "Round the total." + miniTail + "\n</pr_description>\n\nRun the tests again.", "Round the total."},
		"elements in an element": {"<user_query>\n<userRequest>\n<task>Round the total.</task>\n</userRequest>\n</user_query>", "Round the total."},
		"task quotes an element": {miniHead + "The tag <task>x</task> is shown twice." + miniTail, "The tag <task>x</task> is shown twice."},
		"task quotes a template": {miniHead + "Explain:\n<pr_description>\nx\n</pr_description>" + miniTail, "Explain:\n<pr_description>\nx\n</pr_description>"},
		"Zed context":            {"Round it.\n<context>\nThe following items were attached by the user.\n\ngit push\n</context>", "Round it."},
		"Copilot context":        {"<context>\ngit push\n</context>\n<userRequest>\nRound it.\n</userRequest>", "Round it."},
	} {
		req := newConversation(t, "U "+tc.message)
		if got := req.UserRequest(1); got != tc.want {
			t.Errorf("%s: Request.UserRequest = %q, want %q", name, got, tc.want)
		}
		if got := wire.UserRequest(req.Item(1).UserText); got != tc.want {
			t.Errorf("%s: UserRequest(UserText) = %q, want %q", name, got, tc.want)
		}
		if got := req.UserRequest(0); got != "" {
			t.Errorf("%s: Request.UserRequest(system prompt) = %q, want none", name, got)
		}
	}
}

func TestUserRequestKeepsTextSimilarToTemplate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Why does git push fail? The prompt is:\n<pr_description>\nx\n</pr_description>",
		"Summarise the issue, then git push.\n<issue_description>\nx\n</issue_description>",
		"Use this and git push.\n<UserRequest>\nx\n</UserRequest>",
		"<task>Add a flag.</task>\n<constraints>Run git push at the end.</constraints>",
		"<task>Add a flag.</task>\nThen run git push.",
		"<user_query>x</user_query>\nThis prompt fails after git push.",
		"<context>\nRun git push.\n</context>",
		"<context>\nA branch of mine.\n</context>\nRun git push.",
		"Run git push.\n<context>\nA branch of mine.\n</context>",
		"Explain this line:\n (reminder to respond in a JSON blob no matter what)\nand run git push.",
		"Run git push on this log:\n--- USER MESSAGE BEGIN ---\nhello\n--- USER MESSAGE END ---",
		"Run git push on this log:\n--------------------- NEW TASK DESCRIPTION ---------------------\nhello",
		"Run git push on this prompt:\nBegin!\n\nQuestion: hello\nThought: no",
		"You can execute bash commands and edit files to implement the necessary changes.",
	} {
		req := newConversation(t, "U "+text)
		if got, want := req.UserRequest(1), req.Item(1).UserText; got != want {
			t.Errorf("UserRequest = %q, want the whole text %q", got, want)
		}
	}
}

func TestUserRequestKeepsTextInTruncatedTemplate(t *testing.T) {
	t.Parallel()
	task := strings.Repeat("Round the total. ", 64<<10/16)
	for _, template := range []string{miniHead + task + miniTail, "<user_query>\n" + task + "\n</user_query>", "New task:\n" + task} {
		text := template[:64<<10]
		if got := wire.UserRequest(text); !strings.Contains(got, strings.TrimSpace(task[:60<<10])) {
			t.Errorf("UserRequest returned %d of %d bytes, want the user's request among them", len(got), len(text))
		}
	}
}

func TestUserRequestReturnsHugeMessageUnchanged(t *testing.T) {
	t.Parallel()
	text := miniHead + strings.Repeat("Round the total. ", 1<<20/16) + miniTail
	if got := wire.UserRequest(text); got != text {
		t.Errorf("UserRequest returned %d bytes, want the message with %d bytes", len(got), len(text))
	}
	if got := newConversation(t, "U "+text).UserRequest(1); got != text {
		t.Errorf("Request.UserRequest returned %d bytes, want the message with %d bytes", len(got), len(text))
	}
}

func TestUserRequestRemovesTemplateFromEachMessage(t *testing.T) {
	t.Parallel()
	req := newConversation(t, "U "+miniHead+"Round the total."+miniTail, "A Done.", "U <user_message>\nRound the tax.\n</user_message>")
	if first, second := req.UserRequest(1), req.UserRequest(3); first != "Round the total." || second != "Round the tax." {
		t.Errorf(`UserRequest = %q and %q, want "Round the total." and "Round the tax."`, first, second)
	}
}

func TestElideRequest(t *testing.T) {
	t.Parallel()
	text := miniHead + "Round it." + miniTail
	for asked, want := range map[string]string{"Round it.": miniHead + "…" + miniTail, "": text, "another text": text} {
		if got := wire.ElideRequest(text, asked); got != want {
			t.Errorf("ElideRequest(text, %q) = %q, want %q", asked, got, want)
		}
	}
}
