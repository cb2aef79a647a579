package trial_test

import (
	"testing"

	"precept/bandit/trial"
)

// CategoryParts splits a category at "|". The name of an agent or a model may contain this character.
func TestNameWithSeparatorStaysOneCategoryPart(t *testing.T) {
	for _, tc := range []struct{ category, agent, model, length string }{
		{trial.Category("coder", "gpt", "m"), "coder", "gpt", "m"},
		{trial.Category("a|b", "gpt", "m"), "a_b", "gpt", "m"},
		{trial.Category("coder", "g|p|t", "xl"), "coder", "g_p_t", "xl"},
		{trial.Category("", "", "s"), "", "", "s"},
		{"a|b|gpt|m", "a|b", "gpt", "m"}, // category from an older release
		{"coder", "coder", "", ""},
		{"", "", "", ""},
	} {
		agent, model, length := trial.CategoryParts(tc.category)
		if agent != tc.agent || model != tc.model || length != tc.length {
			t.Errorf("CategoryParts(%q) = %q, %q, %q, want %q, %q, %q", tc.category, agent, model, length, tc.agent, tc.model, tc.length)
		}
	}
}
