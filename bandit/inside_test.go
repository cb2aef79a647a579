package bandit

import "precept/trial"

func delta(scope, field string, day int32, v int64) trial.Delta {
	return trial.Delta{Key: trial.Key{Scope: scope, Field: field, Day: day}, Value: v}
}

func lesson(slug string) Action {
	return Action{Slug: slug, Arm: trial.Arm(slug + "@1"), Confidence: 0.5}
}

func lessons(slugs ...string) (out []Action) {
	for _, s := range slugs {
		out = append(out, lesson(s))
	}
	return out
}
