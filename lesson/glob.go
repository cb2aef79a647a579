package lesson

import "strings"

// glob says whether name matches pattern, letters compared without case: * stands for any run of
// characters, ? for one. There are no other special characters, so every pattern is valid. The work
// is at most len(pattern) * len(name).
func glob(pattern, name string) bool {
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

// anyGlob says whether one of the patterns matches one of the names.
func anyGlob(patterns, names []string) bool {
	for _, p := range patterns {
		for _, n := range names {
			if glob(p, n) {
				return true
			}
		}
	}
	return false
}

// matches says whether every field of the target that is given matches.
func (t Target) matches(q *Query) bool {
	return (t.Operator == "" || glob(t.Operator, q.Agent)) &&
		(t.Role == "" || glob(t.Role, q.Role)) &&
		(t.Skill == "" || glob(t.Skill, q.Skill))
}

// addressed says whether the lesson is meant for this agent and this model at all.
func (t *Trigger) addressed(q *Query) bool {
	if len(t.Models) > 0 && !anyGlob(t.Models, []string{q.Model}) {
		return false
	}
	if len(t.Targets) == 0 {
		return true
	}
	for _, target := range t.Targets {
		if target.matches(q) {
			return true
		}
	}
	return false
}
