package trial

import "strings"

// Category returns "agent|model family|length class". A "|" in a part becomes "_", because a client may send any text
// as agent and model.
func Category(agent, model, length string) string {
	part := func(s string) string { return strings.ReplaceAll(s, "|", "_") }
	return part(agent) + "|" + part(model) + "|" + part(length)
}

// CategoryParts splits a category. In a category from an older release the agent may contain "|", so the parts are read
// from the end.
func CategoryParts(category string) (agent, model, length string) {
	end := strings.LastIndexByte(category, '|')
	if start := strings.LastIndexByte(category[:max(end, 0)], '|'); start >= 0 {
		return category[:start], category[start+1 : end], category[end+1:]
	}
	agent, model, _ = strings.Cut(category, "|")
	return agent, model, ""
}
