package admin

import (
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// term is a word of the dashboard with its definition.
type term struct {
	Key  string
	Name string
	Unit string // unit of the number; empty for words and plain counts
	More string // section of the help
	Text string
}

// glossary defines every number and every technical word of the dashboard.
func glossary() []term {
	return []term{
		{"effect", "Effect", "points", "EXPERIMENT#reading-the-report", "How much the lesson changes the reward of a session: the mean where it was injected less the mean where a coin withheld it. 1 point is 0.01 of reward."},
		{"interval", "95% interval", "points", "EXPERIMENT#reading-the-report", "Where the effect lies, with 95% certainty, however often you look (a confidence sequence)."},
		{"injected", "Injected", "sessions", "EXPERIMENT#reading-the-report", "Closed sessions with a reward in which the agent saw the lesson."},
		{"withheld", "Withheld", "sessions", "EXPERIMENT#reading-the-report", "Closed sessions with a reward in which the lesson was picked and a coin kept it back: what the effect is measured against."},
		{"told", "Told", "sessions", "EXPERIMENT#reading-the-report", "Closed sessions of which somebody or something told the outcome: injected and withheld together."},
		{"matched", "Matched", "sessions", "EXPERIMENT#the-other-columns", "Closed sessions in which a trigger of the lesson fired."},
		{"picked", "Picked", "sessions", "EXPERIMENT#the-other-columns", "Closed sessions in which the lesson was chosen, be it injected or withheld."},
		{"refused", "Refused upstream", "sessions", "EXPERIMENT#the-other-columns", "Closed sessions whose changed request the upstream refused, with the lesson and without it. They stay in the comparison."},
		{"p-helps", "P(helps), model", "", "EXPERIMENT#what-the-chooser-gains-meanwhile", "How likely the chooser's model holds it that the lesson helps. It decides what is picked; it is no proof."},
		{"tokens", "Tokens", "tokens", "EXPERIMENT#the-other-columns", "What one injection of the lesson adds to a request, estimated."},
		{"state", "State", "", "LESSONS#the-gate", "candidate or quarantined: waits for approval. trial: withheld often, to be measured. active: in force. caution: presented as a warning. benched, superseded, expired, archived, rejected: out of force."},
		{"needs", "Progress", "picks", "EXPERIMENT#how-much-data-it-takes", "How many of the sessions that a verdict takes have been told; an estimate out of what was measured so far."},
		{"truth", "True effect", "points", "EXPERIMENT#reading-the-report", "What the demo's world gives the lesson, known because it is made up. The green or red interval should hold it."},
		{"over-time", "Over time", "points", "EXPERIMENT#the-other-columns", "The effect as it stood at the end of each of the last 60 days; the dashes are 0."},
		{"cost", "Cost", "points", "EXPERIMENT#the-other-columns", "What one injection costs in units of reward: its tokens at the price that bandit.token_cost gives a token."},
		{"cached", "Prompt cache", "", "EXPERIMENT#the-other-columns", "The share of input tokens that the provider's prompt cache had, as the upstream tells it. The change by the lesson is causal: by the coins."},
		{"input", "Input", "tokens a session", "EXPERIMENT#the-other-columns", "Input tokens of a session in which the lesson was injected, as the upstream tells them."},
		{"reward", "reward", "", "SAMPLES#feedback", "What a session was worth, from 0 to 1: what a user said, else how its last test ended, else what its traffic implies; reward.tiers says which count."},
		{"gain", "Gained this week", "sessions", "EXPERIMENT#what-is-randomised", "What lessons added in the last seven days, or in the window where that is shorter, in sessions' worth of reward: the effect of all lessons together times the sessions that could get them. 100 is as if 100 sessions had gone from worth nothing to fully successful."},
		{"together", "All lessons together", "points", "EXPERIMENT#what-is-randomised", "The mean reward of sessions that may get lessons less that of control sessions, which get none by a coin."},
		{"treated", "Treated", "sessions", "EXPERIMENT#what-is-randomised", "Closed sessions with a reward in which a lesson matched and lessons were allowed."},
		{"control", "Control", "sessions", "EXPERIMENT#what-is-randomised", "Closed sessions with a reward in which a lesson matched and a coin kept all lessons back (bandit.control)."},
		{"spent", "Tokens this week", "tokens", "EXPERIMENT#the-other-columns", "Tokens that lessons added to the requests of the sessions of the last seven days, each once: what is sent again with the history of a session is in Input of a session. precept knows no prices: admin.price_input says what a million cost."},
		{"session-input", "Input of a session", "tokens", "EXPERIMENT#the-other-columns", "Mean input of a session of the last seven days in which a lesson matched, as the upstream tells it: lessons, what is sent again, and turns that lessons saved or caused. Control sessions get none by a coin."},
		{"session-cost", "Input of a session", "at your price", "EXPERIMENT#the-other-columns", "Mean cost of the input of a session of the last seven days in which a lesson matched, at admin.price_input a million tokens, and admin.price_cached for those that the prompt cache had: lessons, what is sent again, and turns that lessons saved or caused. Control sessions get none by a coin."},
		{"proven", "Proven lessons", "lessons", "EXPERIMENT#the-verdicts-in-the-order-in-which-they-are-tried", "Lessons whose effect survives the correction for all lessons ever tested: those that help, and those that harm."},
		{"exploratory", "Shrunken effect", "points", "DASHBOARD#breakdown", "The effect in this part, drawn towards the lesson's mean over all parts by how little they differ beyond chance. It explores; no verdict is made of it."},
		{"corrected", "Corrected interval", "points", "DASHBOARD#breakdown", "Widened for the number of cells that are looked at (Bonferroni): where lessons do nothing anywhere, one page in twenty has a cell whose interval excludes 0."},
		{"verdict", "Verdict", "", "EXPERIMENT#the-verdicts-in-the-order-in-which-they-are-tried", "What may be said of the lesson today. Only proven and helps/harms are measured; likely is the chooser's model."},
		{"session-reward", "Reward", "0 to 1", "SAMPLES#feedback", "What a session was worth: the word of people outweighs that of verifiers, which outweighs what the traffic says (reward.tiers). None where nobody told."},
		{"session-verdict", "Verdict", "", "DASHBOARD#sessions", "What the reward comes to: good from 0.75, acceptable from 0.4, poor below. unrated: closed, and nobody told. open: not closed yet, so not counted."},
		{"session-lessons", "Lessons", "", "DASHBOARD#sessions", "The lessons that were picked in the session: injected, or withheld by a coin (struck through). A control gets none."},
		{"turns", "Turns", "turns", "DASHBOARD#sessions", "Requests of the conversation itself: titles, summaries and other side requests are none, and a retry is the same turn."},
		{"loops", "Loops", "loops", "DASHBOARD#sessions", "How often the agent repeated a call that had failed, or that had told the same, with nothing changed in between."},
		{"input-tokens", "Input", "tokens", "DASHBOARD#sessions", "What the upstream said to have read in this session's turns, cached ones included."},
		{"propensity", "Chance", "0 to 1", "EXPERIMENT#how-long-a-lesson-is-withheld", "How likely it was that the lesson would be injected, fixed before the coin fell."},
		{"sample", "learning samples", "", "SAMPLES#which-samples-a-session-gives", "An MPLP LearningSample: a task, a correction, a slow plan or an answer, with its rating. Made when a session closes."},
		{"store-state", "Store", "", "DASHBOARD#health", "Whether the last write went through. Requests do not depend on it."},
		{"exchanges-kept", "Exchanges kept", "exchanges", "DASHBOARD#health", "Requests with their replies that are in the store, over the life of the data directory."},
		{"exchanges-dropped", "Exchanges lost", "exchanges", "DASHBOARD#health", "Those of which nothing is kept although nobody asked for it: a full outbox, a damaged one, a full queue. Opted-out ones do not count."},
		{"store-lag", "Lag", "seconds", "DASHBOARD#health", "How long the oldest exchange that the store does not have yet has waited in the outbox."},
		{"spool", "Outbox", "", "DASHBOARD#health", "The durable queue on this machine's disk: what is safe there and not known to be safe in the store."},
	}
}

// termOf returns a word of the glossary. The tests find a word without a definition.
func termOf(key string) term {
	terms := glossary()
	i := slices.IndexFunc(terms, func(t term) bool { return t.Key == key })
	if i < 0 {
		return term{Key: key, Name: key}
	}
	return terms[i]
}

// word returns a word of the glossary with its definition at hover, tap or key.
func word(key string) g.Node { return wordOf(termOf(key)) }

func wordOf(t term) g.Node {
	return h.Button(
		h.Type("button"), h.Class("term"), h.PopoverTarget("def-"+t.Key), h.Title(t.Text), g.Text(t.Name),
	)
}

// definition returns the text that opens at a word.
func definition(t term) g.Node {
	return h.Div(
		g.Attr("popover"), h.Class("definition"), h.ID("def-"+t.Key),
		h.Strong(g.Text(t.Name)),
		g.If(t.Unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text("in "+t.Unit))}),
		h.P(g.Text(t.Text+" "), h.A(h.Href("/help/"+t.More), g.Text("More"))),
	)
}

// stat is a figure with the unit and definition of its term.
type stat struct {
	term  term
	value string
	note  string // comparison or start
	tone  string // good, bad, warn or empty
}

func statOf(key, value, note, tone string) stat { return stat{termOf(key), value, note, tone} }

// unit returns the unit for the value: one session, two sessions.
func (s stat) unit() string {
	if s.value == "1" {
		return strings.TrimSuffix(s.term.Unit, "s")
	}
	return s.term.Unit
}

// figures returns numbers with units and definitions.
func figures(list []stat) g.Node {
	return h.Dl(h.Class("stats"), g.Map(list, func(s stat) g.Node {
		unit := s.unit()
		return h.Div(
			toned(s.tone),
			h.Dt(wordOf(s.term)),
			h.Dd(
				h.Span(h.Class("value"), g.Text(s.value)),
				g.If(unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text(unit))}),
				g.If(s.note != "", small(g.Text(s.note))),
			),
		)
	}))
}
