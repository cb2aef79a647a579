package inject

import (
	"path"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// task searches further for the words of a task at the start of a session: a program may send a
// list that contains a call and a result already, put a plan after the task, or put the task into
// the system prompt. The block still goes to new content, because earlier content may be in the
// provider's cache.
func (w *work) task(q *lesson.Query, spots map[string]spot) {
	var found []string
	if w.input.Request.New() > 0 && w.noneFromPerson(q.Words) {
		if words := w.earlierWords(); words != "" {
			found = append(found, words)
		}
	}
	if w.in.readsSystem(w.input.Claim.Agent) {
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

// noneFromPerson reports whether no person wrote the new words.
func (w *work) noneFromPerson(words []string) bool {
	return !slices.ContainsFunc(words, isFromPerson)
}

// isFromPerson reports whether a person wrote the words.
func isFromPerson(words string) bool {
	_, synthetic := detect.Synthetic(words)
	return words != "" && !synthetic
}

// earlierWords returns the newest words of a person before the new content, within maxEarlier items.
func (w *work) earlierWords() string {
	for i := w.input.Request.New() - 1; i >= max(0, w.input.Request.New()-maxEarlier); i-- {
		if w.input.Request.Role(i) != wire.RoleUser {
			continue
		}
		if words := w.input.Request.Asked(i); isFromPerson(words) {
			return words
		}
	}
	return ""
}

// maxEarlier is the number of items before the new content that are searched for the task.
const maxEarlier = 64

// anySpot returns a place for words without a place: the top of a new result or, in a list with
// only a system prompt, the end of the prompt.
func (w *work) anySpot() (spot, bool) {
	for i := w.input.Request.New(); i < w.input.Request.End(); i++ {
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

// readsSystem reports whether the operator wants the system prompts of the agent to be searched.
func (in *Injector) readsSystem(agent string) bool {
	return slices.ContainsFunc(in.cfg.System, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(agent))
		return pattern == "*" || ok && err == nil
	})
}
