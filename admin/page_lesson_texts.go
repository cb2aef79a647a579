package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"precept/inject"
	"precept/report"
)

// oldText is an older text of the lesson, or the same presented in another way, with what was
// measured of it.
type oldText struct {
	Arm, State, Verdict, Effect, Interval, Told string

	Sight   report.Sight // a session that got it
	Text    string       // what the model saw of it there; "" when no stored session tells
	Changed []diffLine   // from it to the text that is in force
}

// textsShown is how many older texts are looked up in stored sessions: those with the most told
// picks.
const textsShown = 10

func oldTextOf(r *report.Row) oldText {
	effect, lo, hi := shownOf(r)
	return oldText{Arm: r.Arm, State: r.State, Verdict: string(r.Verdict), Effect: points(effect), Interval: interval(effect, lo, hi), Told: count(r.Told)}
}

// recall fills in what the older texts said. The bank keeps the text of now alone; what was shown
// stands in the sessions that got it, for as long as they are kept.
func (v *lessonView) recall(ctx context.Context, s *Server, tenant string, sv *report.Survey) {
	if s.options.Archive == nil {
		return
	}
	slices.SortStableFunc(v.Texts, func(a, b oldText) int {
		x, _ := sv.Seen(a.Arm)
		y, _ := sv.Seen(b.Arm)
		return cmp.Or(y.Began.Compare(x.Began), strings.Compare(a.Arm, b.Arm))
	})
	now := inject.Part(v.Block, v.Slug)
	for i := range v.Texts[:min(len(v.Texts), textsShown)] {
		one := &v.Texts[i]
		sight, ok := sv.Seen(one.Arm)
		if !ok {
			continue
		}
		block, err := s.options.Archive.Block(ctx, tenant, sight.Session, v.Slug)
		if err != nil {
			continue // forgotten meanwhile: the page says that no stored session tells it
		}
		one.Sight, one.Text = sight, inject.Part(block, v.Slug)
		if one.Text != "" && now != "" {
			one.Changed = difference(linesOf(one.Text), linesOf(now))
		}
	}
}

func linesOf(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
