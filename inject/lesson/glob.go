package lesson

import (
	"slices"
	"strings"
)

// matchesGlob reports whether name matches pattern without regard to case. In a pattern, * matches any number of
// characters, and ? matches one character. There are no other special characters, so every pattern is valid. glob takes
// at most len(pattern) * len(name) steps.
func matchesGlob(pattern, name string) bool {
	p, n := []rune(strings.ToLower(pattern)), []rune(strings.ToLower(name))
	i, j, starAt, resume := 0, 0, -1, 0
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			starAt, resume = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i++
			j++
		case starAt >= 0:
			resume++
			i, j = starAt+1, resume
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// anyGlob reports whether one of the patterns matches the name.
func anyGlob(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchesGlob(p, name) })
}

// matches reports whether every non-empty field of the target matches the query.
func (t Target) matches(q *Query) bool {
	return (t.Operator == "" || matchesGlob(t.Operator, q.Agent)) &&
		(t.Role == "" || matchesGlob(t.Role, q.Role)) &&
		(t.Skill == "" || matchesGlob(t.Skill, q.Skill))
}

// admitsModelAndAgent reports whether the models and the targets of the trigger admit the model and the agent of the
// query.
func (t *Trigger) admitsModelAndAgent(q *Query) bool {
	return (len(t.Models) == 0 || anyGlob(t.Models, q.Model)) && t.admitsAgent(q)
}

// admitsAgent reports whether the trigger has no targets, or a target matches.
func (t *Trigger) admitsAgent(q *Query) bool {
	return len(t.Targets) == 0 || slices.ContainsFunc(t.Targets, func(x Target) bool { return x.matches(q) })
}
