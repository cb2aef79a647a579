package admin

import (
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// term is a dashboard word with a definition.
type term struct {
	Key      string
	Name     string
	Unit     string // empty for words and for numbers without a unit
	HelpPage string // in the form PAGE#anchor
	Text     string
}

// glossary defines every number and every technical word on the dashboard.
func glossary() []term {
	return []term{
		{"effect", "Effect", "points", "EXPERIMENT#reading-the-report", "How the lesson changes a session's reward: the mean reward with the lesson minus the mean reward in sessions where it was withheld at random. 1 point is 0.01 reward."},
		{"interval", "95% interval", "points", "EXPERIMENT#reading-the-report", "The range that contains the effect with 95% confidence, valid however often you look (a confidence sequence)."},
		{"injected", "Injected", "rewarded sessions", "EXPERIMENT#reading-the-report", "Closed sessions with a reward in which the agent saw the lesson."},
		{"withheld", "Withheld", "rewarded sessions", "EXPERIMENT#reading-the-report", "Closed sessions with a reward in which the lesson was picked and withheld at random: the comparison group."},
		{"rewarded", "Rewarded", "rewarded sessions", "EXPERIMENT#reading-the-report", "Closed sessions with a reward in which the lesson was picked: injected and withheld together."},
		{"matched", "Matched", "closed sessions", "EXPERIMENT#the-other-columns", "Closed sessions in which one of the lesson's triggers fired."},
		{"picked", "Picked", "closed sessions", "EXPERIMENT#the-other-columns", "Closed sessions in which the chooser selected the lesson, injected or withheld."},
		{"refused", "Refused upstream", "closed sessions", "EXPERIMENT#the-other-columns", "Closed sessions in which the upstream refused a request that precept had changed, with the lesson and with the lesson withheld. They stay in the comparison."},
		{"p-helps", "P(helps), model", "", "EXPERIMENT#what-the-chooser-gains-meanwhile", "The probability that the lesson helps, in the chooser's model. This is a prediction by the model that selects the picks, not a measurement."},
		{"tokens", "Tokens", "tokens", "EXPERIMENT#the-other-columns", "Estimated tokens that one injection adds to a request."},
		{"state", "State", "", "LESSONS#the-gate", "candidate or quarantined: waits for approval. trial: withheld in half the picks, for a fast measurement. active: in use. caution: shown as a warning. benched: rarely picked. paused: not in use until a person resumes it. archived: retired until a person restores it. superseded, expired, rejected: not in use."},
		{"needs", "Progress", "picks", "EXPERIMENT#how-much-data-it-takes", "Rewarded picks so far, and the number that a verdict needs, estimated from the data so far."},
		{"truth", "True effect", "points", "EXPERIMENT#reading-the-report", "The lesson's effect in the demo's simulated world. The green or red interval should contain the true effect."},
		{"over-time", "Over time", "points", "EXPERIMENT#the-other-columns", "The effect at the end of each day, for the last 60 days; the dashes are 0."},
		{"lesson-money", "Money", "", "EXPERIMENT#the-other-columns", "The cost of the inserted tokens, without a prompt cache. The price is the mean input price of this week's sessions with the lesson (configuration key prices)."},
		{"cost", "Cost", "points", "EXPERIMENT#the-other-columns", "The cost of one injection in reward points: the number of tokens times bandit.token_cost."},
		{"cached", "Prompt cache", "", "EXPERIMENT#the-other-columns", "The share of input tokens from the provider's prompt cache, as reported by the upstream. The lesson causes the difference between the arms, because each session's arm is chosen at random."},
		{"input", "Input", "tokens a session", "EXPERIMENT#the-other-columns", "Input tokens per session with the lesson, as reported by the upstream."},
		{"reward", "reward", "", "SAMPLES#feedback", "How well a session went, from 0 to 1: the user's feedback, else the last test result, else signals in the traffic. reward.tiers selects the sources."},
		{"gain", "Gained this week", "sessions", "EXPERIMENT#what-is-randomised", "The gain from lessons in the last seven days, or in a shorter window: the effect of all lessons together times the number of sessions that could get lessons. A run counts once. A gain of 100 is worth 100 sessions with a reward of 1 instead of 0."},
		{"net", "Net this week", "", "DASHBOARD#overview", "The value of prevented failures minus the cost of inserted tokens, in the last seven days or in a shorter window. The number of prevented failures is the effect of all lessons together times the number of sessions that could get lessons; a run counts once. Each prevented failure is worth admin.session_value. Each token inserted in rewarded sessions counts once, at this week's mean input price without a prompt cache."},
		{"together", "All lessons together", "points", "EXPERIMENT#what-is-randomised", "The mean reward in sessions that may get lessons minus the mean reward in control sessions, which are chosen at random to get no lesson."},
		{"treated", "Treated", "rewarded sessions", "EXPERIMENT#what-is-randomised", "Closed sessions with a reward in which a lesson matched, other than control sessions. A run counts once; the list shows each session in a run."},
		{"control", "Control", "rewarded sessions", "EXPERIMENT#what-is-randomised", "Sessions chosen at random to get no lesson (bandit.control). The number counts closed sessions with a reward in which a lesson matched. A run counts once; the list shows each session in a run."},
		{"spent", "Lesson tokens this week", "tokens", "EXPERIMENT#the-other-columns", "Tokens that lessons added to requests in the last seven days, each counted once. Input per session also counts the tokens that are sent again with the history. The cost is at this week's mean input price (configuration key prices)."},
		{"session-input", "Input per session", "tokens", "EXPERIMENT#the-other-columns", "Mean input per session with a matching lesson in the last seven days, as reported by the upstream. The input includes the lessons and the repeated history. The input falls if lessons save turns, and rises if lessons cause turns. Control sessions get no lessons."},
		{"session-cost", "Input per session", "at model prices", "EXPERIMENT#the-other-columns", "Mean input cost per session with a matching lesson in the last seven days. The cost includes the lessons and the repeated history. The cost falls if lessons save turns, and rises if lessons cause turns. The price is this week's mean model price (configuration key prices); tokens from the prompt cache have the cached price. Control sessions get no lessons."},
		{"proven", "Proven lessons", "lessons", "EXPERIMENT#the-verdicts-in-the-order-in-which-they-are-tried", "Lessons that are proven to help and, in the second line, lessons that are proven to harm. At most one in twenty of these proofs may be wrong."},
		{"exploratory", "Shrunken effect", "points", "DASHBOARD#breakdown", "The effect in this subset, moved towards the lesson's mean over all subsets. The effect moves far if the subsets differ by little more than chance. Exploratory: no verdict uses this effect."},
		{"corrected", "Corrected interval", "points", "DASHBOARD#breakdown", "The interval, widened for the number of cells on the page (Bonferroni). If no lesson has an effect, one page in twenty has a cell with an interval that excludes 0."},
		{"verdict", "Verdict", "", "EXPERIMENT#the-verdicts-in-the-order-in-which-they-are-tried", "The conclusion about the lesson. The verdicts likely and benched are predictions by the chooser's model; the others come from measurements."},
		{"session-reward", "Reward", "0 to 1", "SAMPLES#feedback", "How well the session went. Feedback from people outranks verifiers such as tests, and verifiers outrank signals in the traffic (reward.tiers). Empty without feedback."},
		{"session-verdict", "Verdict", "", "DASHBOARD#sessions", "The reward in a word: good from 0.75, acceptable from 0.4, poor below. unrated: closed without a reward. open: not closed yet, so not counted."},
		{"session-lessons", "Lessons", "", "DASHBOARD#sessions", "The lessons picked in the session: injected, or withheld at random (struck through). A control session gets no lessons."},
		{"duration", "Duration", "", "DASHBOARD#sessions", "From the first request until the newest reply ended."},
		{"spending", "Cost", "", "DASHBOARD#sessions", "What the turns' input and output tokens cost, each model's tokens at the model's price (configuration key prices). The upstream reports the tokens. If a model has no price, the session has no cost."},
		{"errors", "Errors", "tool results", "DASHBOARD#sessions", "Tool results that report a failure. A dash means that the number is not known, for example for a session stored by an older release."},
		{"turns", "Turns", "turns", "DASHBOARD#sessions", "Requests in the conversation, without requests for titles, summaries and other side requests. A retry is part of the same turn."},
		{"loops", "Loops", "loops", "DASHBOARD#sessions", "Calls that the agent repeated although nothing had changed since the same call failed or returned the same result."},
		{"input-tokens", "Input", "tokens", "DASHBOARD#sessions", "The turns' input tokens, including cached tokens and tokens written to the prompt cache, as reported by the upstream."},
		{"propensity", "Chance", "0 to 1", "EXPERIMENT#how-long-a-lesson-is-withheld", "The probability that the lesson is injected, fixed before the random choice."},
		{"sample", "learning samples", "", "SAMPLES#which-samples-a-session-gives", "An MPLP LearningSample: a task, a correction, a slow plan or an answer, with the rating. precept builds a session's samples when the session closes."},
		{"store-state", "Store", "", "DASHBOARD#health", "Whether the last write to the store succeeded. precept forwards requests even if the store fails."},
		{"exchanges-kept", "Exchanges kept", "exchanges", "DASHBOARD#health", "Stored requests and replies since the data directory was created."},
		{"exchanges-dropped", "Exchanges lost", "exchanges", "DASHBOARD#health", "Exchanges lost to a full outbox, a damaged outbox or a full queue. Opted-out exchanges do not count."},
		{"store-lag", "Lag", "seconds", "DASHBOARD#health", "How long the oldest exchange has waited in the outbox for the store."},
		{"outbox", "Outbox", "", "DASHBOARD#health", "The queue on this machine's disk. It holds the exchanges that the store may not have yet."},
	}
}

// glossaryTerm returns the term with this key. The tests fail on an unknown key; on a page, such a key is shown as the
// name.
func glossaryTerm(key string) term {
	terms := glossary()
	i := slices.IndexFunc(terms, func(t term) bool { return t.Key == key })
	if i < 0 {
		return term{Key: key, Name: key}
	}
	return terms[i]
}

// termButton returns a button that opens a term's definition.
func termButton(key string) g.Node { return definitionButton(glossaryTerm(key)) }

func definitionButton(t term) g.Node {
	return h.Button(
		h.Type("button"), h.Class("term"), h.PopoverTarget("def-"+t.Key), h.Title(t.Text), g.Text(t.Name),
	)
}

// definition returns the box that a term's button opens.
func definition(f frame, t term) g.Node {
	return h.Div(
		g.Attr("popover"), h.Class("definition"), h.ID("def-"+t.Key),
		h.Strong(g.Text(t.Name)),
		g.If(t.Unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text("in "+t.Unit))}),
		h.P(g.Text(t.Text+" "), h.A(h.Href(f.helpHref(t.HelpPage)), g.Text("More"))),
	)
}

// stat is a figure with a term.
type stat struct {
	term  term
	value string
	note  string // second line, such as the interval
	tone  string // good, bad, warn or empty
	href  string // page with the sessions or lessons that the value counts
}

// newStat returns a figure. The no-break space before a currency becomes plain, so a long amount can break there.
func newStat(key, value, note, tone string) stat {
	return stat{glossaryTerm(key), strings.ReplaceAll(value, "\u00a0", " "), note, tone, ""}
}

// withLink adds a link to the sessions or lessons that the value counts, unless the value is 0 or missing.
func (s stat) withLink(href string) stat {
	s.href = ifElse(s.value == "0" || s.value == noValue || s.value == stillCounting, "", href)
	return s
}

// unit returns the unit in singular or plural. A value that is still being counted has no unit.
func (s stat) unit() string {
	switch s.value {
	case "1":
		return strings.TrimSuffix(s.term.Unit, "s")
	case stillCounting:
		return ""
	default:
		return s.term.Unit
	}
}

func statList(list []stat) g.Node {
	return h.Dl(h.Class("stats"), g.Map(list, func(s stat) g.Node {
		unit := s.unit()
		return h.Div(
			toneClass(s.tone),
			h.Dt(definitionButton(s.term)),
			h.Dd(
				ifElse(s.href == "",
					h.Span(h.Class("value"), g.Text(s.value)),
					h.A(h.Class("value"), h.Href(s.href), ariaLabel(s.term.Name+": "+s.value+" "+unit), g.Text(s.value))),
				g.If(unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text(unit))}),
				g.If(s.note != "", smallLine(g.Text(s.note))),
			),
		)
	}))
}
