package inject

import (
	"path"
	"slices"
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/wire"
)

// task looks further for the words of a task when a session begins: a program may hand over a list
// that holds a call and its result already, put a plan of its own behind the task, or say
// everything in the system prompt. The block then goes to what is new all the same: what stands
// before it may be in the provider's cache.
func (w *work) task(q *lesson.Query, spots map[string]spot) {
	var found []string
	if w.Request.New() > 0 && w.wordless(q.Words) {
		if words := w.earlier(); words != "" {
			found = append(found, words)
		}
	}
	if w.in.readsSystem(w.Claim.Agent) {
		if words := w.Request.SystemText(); words != "" {
			found = append(found, words)
		}
	}
	if len(found) == 0 {
		return
	}
	if _, ok := spots[""]; !ok {
		at, ok := w.anywhere()
		if !ok {
			return
		}
		spots[""] = at
	}
	q.Words = append(q.Words, found...)
}

// wordless says that no person speaks in what is new.
func (w *work) wordless(words []string) bool { return !slices.ContainsFunc(words, personal) }

// personal says that a person wrote the words.
func personal(words string) bool {
	_, synthetic := detect.Synthetic(words)
	return words != "" && !synthetic
}

// earlier are the newest words of a person before what is new, as far as it is looked for them.
func (w *work) earlier() string {
	for i := w.Request.New() - 1; i >= max(0, w.Request.New()-maxEarlier); i-- {
		if w.Request.Role(i) != wire.RoleUser {
			continue
		}
		if words := w.Request.Item(i).Words; personal(words) {
			return words
		}
	}
	return ""
}

// maxEarlier is how many items before what is new are looked at for the task.
const maxEarlier = 64

// anywhere is a place for words that have none: at the top of a new result, or, in a list that is
// nothing but a system prompt, at its end.
func (w *work) anywhere() (spot, bool) {
	for i := w.Request.New(); i < w.Request.End(); i++ {
		if at, ok := w.firstResult(i); ok {
			return at, true
		}
		if it := w.Request.Item(i); it.Role == wire.RoleUser && it.HasText {
			if at, ok := w.wordsOf(i); ok {
				return at, true
			}
		}
	}
	for i := range w.Request.Len() {
		if w.Request.Role(i) != wire.RoleSystem {
			return spot{}, false
		}
	}
	return w.wordsOf(wire.System)
}

// readsSystem says whether the operator wants the system prompts of that agent to be searched.
func (in *Injector) readsSystem(agent string) bool {
	return slices.ContainsFunc(in.cfg.System, func(pattern string) bool {
		ok, err := path.Match(strings.ToLower(pattern), strings.ToLower(agent))
		return pattern == "*" || ok && err == nil
	})
}
