package inject

import (
	"path"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// addTaskWords adds to q the words of the task that are outside of the new user messages. query calls addTaskWords in
// the first turn of a session only. The first request of an agent may already contain a call and its result, may
// contain a plan after the task, or may contain the task in its system prompt. The block is still inserted at new
// content, because earlier content may be in the provider's cache.
func (w *work) addTaskWords(q *lesson.Query, spots map[string]spot) {
	var found []string
	if w.input.Request.FirstNew() > 0 && w.noneFromUser(q.Words) {
		if words := w.earlierWords(); words != "" {
			found = append(found, words)
		}
	}
	if w.in.searchesSystemPrompt(w.input.Claim.Agent) {
		if words := w.input.Request.SystemText(); words != "" {
			found = append(found, words)
		}
	}
	if len(found) == 0 {
		return
	}
	if _, ok := spots[""]; !ok {
		at, ok := w.firstNewSpot()
		if !ok {
			return
		}
		spots[""] = at
	}
	q.Words = append(q.Words, found...)
}

// noneFromUser reports whether the user wrote none of the texts.
func (w *work) noneFromUser(words []string) bool {
	return !slices.ContainsFunc(words, isFromUser)
}

// isFromUser reports whether the user wrote the words. An agent writes some messages with the role user itself.
func isFromUser(words string) bool {
	_, synthetic := detect.SyntheticRule(words)
	return words != "" && !synthetic
}

// earlierWords returns the newest words of the user before the new content. It searches the last maxEarlierItems items.
func (w *work) earlierWords() string {
	for i := w.input.Request.FirstNew() - 1; i >= max(0, w.input.Request.FirstNew()-maxEarlierItems); i-- {
		if w.input.Request.Role(i) != wire.RoleUser {
			continue
		}
		if words := w.input.Request.UserRequest(i); isFromUser(words) {
			return words
		}
	}
	return ""
}

// maxEarlierItems is the number of items before the new content that earlierWords searches.
const maxEarlierItems = 64

// firstNewSpot returns the first spot in the new content, which is the top of a tool result or the place before the
// words of a user message. For a request with nothing but a system prompt, it returns the end of this prompt.
func (w *work) firstNewSpot() (spot, bool) {
	for i := w.input.Request.FirstNew(); i < w.input.Request.End(); i++ {
		if at, ok := w.firstResultSpot(i); ok {
			return at, true
		}
		if it := w.input.Request.Item(i); it.Role == wire.RoleUser && it.HasText {
			if at, ok := w.wordsSpotOf(i); ok {
				return at, true
			}
		}
	}
	for i := range w.input.Request.Len() {
		if w.input.Request.Role(i) != wire.RoleSystem {
			return spot{}, false
		}
	}
	return w.wordsSpotOf(wire.System)
}

// searchesSystemPrompt reports whether the system prompts of the agent are searched for the task
// (Config.SystemPromptAgents).
func (in *Injector) searchesSystemPrompt(agent string) bool {
	return slices.ContainsFunc(in.cfg.SystemPromptAgents, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(agent))
		return pattern == "*" || ok && err == nil
	})
}
