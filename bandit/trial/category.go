package trial

import "strings"

// Category returns "agent|model family|length class". A "|" in a part becomes "_", because agent and model are free
// text.
func Category(agent, model, length string) string {
	part := func(s string) string { return strings.ReplaceAll(s, "|", "_") }
	return part(agent) + "|" + part(model) + "|" + part(length)
}

// CategoryParts splits a category into its parts. It starts at the end, because a category from an older release may
// have a "|" in the agent.
func CategoryParts(category string) (agent, model, length string) {
	end := strings.LastIndexByte(category, '|')
	if start := strings.LastIndexByte(category[:max(end, 0)], '|'); start >= 0 {
		return category[:start], category[start+1 : end], category[end+1:]
	}
	agent, model, _ = strings.Cut(category, "|")
	return agent, model, ""
}
