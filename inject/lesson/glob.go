package lesson

import (
	"slices"
	"strings"
)

// matchesGlob reports whether a name matches a pattern, regardless of case. A * matches any text and a ? any character;
// all other characters match themselves. A match takes at most len(pattern) * len(name) steps.
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

func anyGlob(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchesGlob(p, name) })
}

func (t Target) matches(q *Query) bool {
	return (t.Operator == "" || matchesGlob(t.Operator, q.Agent)) &&
		(t.Role == "" || matchesGlob(t.Role, q.Role)) &&
		(t.Skill == "" || matchesGlob(t.Skill, q.Skill))
}

func (t *Trigger) admitsModelAndAgent(q *Query) bool {
	return (len(t.Models) == 0 || anyGlob(t.Models, q.Model)) && t.admitsAgent(q)
}

func (t *Trigger) admitsAgent(q *Query) bool {
	return len(t.Targets) == 0 || slices.ContainsFunc(t.Targets, func(x Target) bool { return x.matches(q) })
}
