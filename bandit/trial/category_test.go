package trial_test

import (
	"testing"

	"precept/bandit/trial"
)

// The parts of a category are those of the session, even if the agent or the model contains the separator.
func TestSeparatorInAgentOrModelMovesNoPartOfCategory(t *testing.T) {
	for _, k := range []struct{ category, agent, model, length string }{
		{trial.Category("coder", "gpt", "m"), "coder", "gpt", "m"},
		{trial.Category("a|b", "gpt", "m"), "a_b", "gpt", "m"},
		{trial.Category("coder", "g|p|t", "xl"), "coder", "g_p_t", "xl"},
		{trial.Category("", "", "s"), "", "", "s"},
		{"a|b|gpt|m", "a|b", "gpt", "m"}, // of an older release
		{"coder", "coder", "", ""},
		{"", "", "", ""},
	} {
		agent, model, length := trial.CategoryParts(k.category)
		if agent != k.agent || model != k.model || length != k.length {
			t.Errorf("CategoryParts(%q) = %q, %q, %q, want %q, %q, %q", k.category, agent, model, length, k.agent, k.model, k.length)
		}
	}
}
