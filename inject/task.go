package inject

import (
	"path"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// addTaskWords adds words about the task that are not in the new user messages. It does so in a session's first turn,
// because the first request can already contain a call, a plan after the task, or the task in the system prompt. The
// block still goes into new content, because the provider's cache can contain earlier content.
func (w *work) addTaskWords(q *lesson.Query, spots map[string]spot) {
	var found []string
	if w.input.Request.FirstNew() > 0 && w.noneFromUser(q.Words) {
		if words := w.earlierWords(); words != "" {
			found = append(found, words)
		}
	}
	if w.injector.searchesSystemPrompt(w.input.Claim.Agent) {
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

func (w *work) noneFromUser(words []string) bool {
	return !slices.ContainsFunc(words, isFromUser)
}

// isFromUser reports whether a person wrote a user message. Some messages with the user role are written by the agent
// itself.
func isFromUser(words string) bool {
	_, synthetic := detect.SyntheticRule(words)
	return words != "" && !synthetic
}

// earlierWords returns the user's newest words before the new content.
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

const maxEarlierItems = 64 // items that earlierWords searches

// firstNewSpot returns the first spot in the new content or, if there is only a system prompt, the end of the prompt.
func (w *work) firstNewSpot() (spot, bool) {
	for i := w.input.Request.FirstNew(); i < w.input.Request.End(); i++ {
		if at, ok := w.firstResultSpot(i); ok {
			return at, true
		}
		if it := w.input.Request.Item(i); it.Role == wire.RoleUser && it.HasText {
			if at, ok := w.wordsSpotAt(i); ok {
				return at, true
			}
		}
	}
	for i := range w.input.Request.Len() {
		if w.input.Request.Role(i) != wire.RoleSystem {
			return spot{}, false
		}
	}
	return w.wordsSpotAt(wire.System)
}

func (in *Injector) searchesSystemPrompt(agent string) bool {
	return slices.ContainsFunc(in.cfg.SystemPromptAgents, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(agent))
		return pattern == "*" || ok && err == nil
	})
}
