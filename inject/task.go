package inject

import (
	"path"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// addTaskWords adds to q the words of the task that are outside of the new user messages. The caller calls task in the
// first turn of a session only. A program may begin with a list that already contains a call and its result, may put a
// plan after the task, or may put the task into the system prompt. The block is still inserted at new content, because
// earlier content may be in the provider's cache.
func (w *work) addTaskWords(q *lesson.Query, spots map[string]spot) {
	var found []string
	if w.input.Request.FirstNew() > 0 && w.noneFromPerson(q.Words) {
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
		at, ok := w.anySpot()
		if !ok {
			return
		}
		spots[""] = at
	}
	q.Words = append(q.Words, found...)
}

// noneFromPerson reports whether a person wrote none of the words.
func (w *work) noneFromPerson(words []string) bool {
	return !slices.ContainsFunc(words, isFromPerson)
}

// isFromPerson reports whether a person wrote the words.
func isFromPerson(words string) bool {
	_, synthetic := detect.Synthetic(words)
	return words != "" && !synthetic
}

// earlierWords returns the newest words of the user in the maxEarlierItems items before the new content.
func (w *work) earlierWords() string {
	for i := w.input.Request.FirstNew() - 1; i >= max(0, w.input.Request.FirstNew()-maxEarlierItems); i-- {
		if w.input.Request.Role(i) != wire.RoleUser {
			continue
		}
		if words := w.input.Request.UserRequest(i); isFromPerson(words) {
			return words
		}
	}
	return ""
}

// maxEarlierItems is the number of items before the new content that earlierWords searches.
const maxEarlierItems = 64

// anySpot returns the first spot in the new content: the top of a tool result, or before the words of a user message.
// In a request with nothing but a system prompt, it returns the end of this prompt.
func (w *work) anySpot() (spot, bool) {
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

// searchesSystemPrompt reports whether the configuration has the system prompts of the agent searched for the task.
func (in *Injector) searchesSystemPrompt(agent string) bool {
	return slices.ContainsFunc(in.cfg.System, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(agent))
		return pattern == "*" || ok && err == nil
	})
}
