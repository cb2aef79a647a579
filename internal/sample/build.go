package sample

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"precept/internal/redact"
)

// Limits of a text in a sample; the exchanges hold the full text.
const (
	summaryBytes = 2000
	textBytes    = 8000
)

// Placeholders for missing texts of the input. A missing answer is an empty text.
const (
	noWords = "(no words of the user)"
	noText  = "(no text)"
)

// Build returns the learning samples of a closed session. A session with tool calls gives one
// intent_resolution, and a dialog_response for every later user turn. A session without tool calls
// gives a dialog_response for every user turn. A session of more than one exchange also gives an
// error_correction for each failed call that a different call repaired, and a plan_optimization if
// the session was slow or costly. docs/SAMPLES.md gives the reasons.
//
// An unchanged session gives identical samples with identical ids.
func Build(s Session) []Sample {
	h := s.history()
	if len(h.kept) == 0 {
		return nil
	}
	var out []Sample
	from := 0
	if len(h.steps) > 0 {
		out = append(out, h.intent())
		from = 1
	}
	for i := from; i < len(h.parts); i++ {
		out = append(out, h.dialog(h.number(i), &h.parts[i], i == len(h.parts)-1))
	}
	if h.isSingleExchange() {
		return out
	}
	out = append(out, h.corrections()...)
	if reasons := h.costReasons(); len(reasons) > 0 {
		out = append(out, h.plan(reasons))
	}
	return out
}

// intent returns the session's intent_resolution: the first request and the final state.
func (h *history) intent() Sample {
	first := h.parts[0]
	f, label := h.rate(0, 0, true)
	s := h.sample(IntentResolution, 0, h.kept, f, label)
	s.Input["intent_id"] = deriveID(h.Session.Tenant, h.Session.ID, "intent", 0)
	s.Input["raw_request_summary"] = cmp.Or(cut(first.words, summaryBytes), noWords)
	s.Input["dialog_turns_count"] = len(h.parts)
	s.Output["final_intent_summary"] = cmp.Or(answer(h.kept), lastCalls(h.kept))
	s.Output["resolution_quality_label"] = resolution(f.QualityLabel)
	s.Output["tool_calls"] = len(h.steps)
	s.Output["failed_calls"] = h.failures()
	return s
}

// number returns the number of a part's dialog_response, from which the id of the sample is derived.
// The number must not change if the session continues after its samples were built: a session that
// talked first and used tools later keeps the numbers of its first parts.
//
// The first exchanges of a session may have been deleted from the store (learning.hot) after their
// samples were exported. The numbers of the remaining turns begin after all numbers that the deleted
// turns can have had.
func (h *history) number(part int) int {
	part += h.offset()
	if len(h.steps) > 0 && h.steps[0].Turn < h.secondPartTurn() {
		return part - 1
	}
	return part
}

// offset returns the first number for the samples of the stored turns: 0 if the first turn is stored,
// else a number that no deleted turn has used.
func (h *history) offset() int {
	const maxPerTurn = 1 << 16 // maximum number of samples of a family in a turn
	first := h.Session.Exchanges[0].Turn
	for i := range h.Session.Exchanges {
		first = min(first, h.Session.Exchanges[i].Turn)
	}
	return max(first-1, 0) * maxPerTurn
}

// secondPartTurn returns the number of the first turn of the second part; math.MaxInt without a second part.
func (h *history) secondPartTurn() int {
	if len(h.parts) < 2 {
		return math.MaxInt
	}
	return h.parts[1].exchanges[0].Turn
}

func (h *history) dialog(n int, p *part, last bool) Sample {
	from, to := p.turns()
	f, label := h.rate(from, to, last && len(h.steps) == 0)
	s := h.sample(DialogResponse, n, p.exchanges, f, label)
	s.Input["user_text"] = cmp.Or(cut(p.words, textBytes), noWords)
	s.Input["turn"] = from
	s.Output["response_text"] = answer(p.exchanges)
	return s
}

// sample fills in the fields that all families share.
func (h *history) sample(family string, n int, exchanges []*Exchange, f Feedback, label string) Sample {
	last := exchanges[len(exchanges)-1]
	s := Sample{
		ID:        deriveID(h.Session.Tenant, h.Session.ID, family, n),
		Family:    family,
		CreatedAt: last.At.Add(milliseconds(last.LatencyMS)).UTC().Truncate(time.Millisecond),
		Input:     map[string]any{},
		State:     map[string]any{"dialect": last.Dialect, "model": last.Model},
		Output:    map[string]any{"outcome": outcome(exchanges)},
		Feedback:  f,
		Meta: map[string]any{
			"human_feedback_label": label,
			"quality_score":        qualityScore(f, exchanges),
			"tenant":               h.Session.Tenant,
			"agent":                h.Session.Agent,
			"session":              h.Session.ID,
			"model":                last.Model,
			"turns":                len(exchanges),
			"tokens":               tokens(exchanges),
		},
	}
	if h.Session.Name != "" {
		s.Meta["session_name"] = h.Session.Name
	}
	if last.Run != "" {
		s.Meta["run"] = last.Run
	}
	if last.Reply.Error != "" {
		s.Output["error"] = cut(last.Reply.Error, summaryBytes)
	}
	if flow := last.Config; flow != "" {
		s.Meta["source_flow_id"] = flow
	}
	if ids := eventIDs(exchanges); len(ids) > 0 {
		s.Meta["source_event_ids"] = ids
	}
	if lessons := lessonsOf(exchanges); len(lessons) > 0 {
		s.Meta["lessons"] = lessons
	}
	for _, e := range exchanges {
		if e.Truncated {
			s.Meta["truncated"] = true
		}
		if n, _ := s.Meta["choices"].(int); e.Reply.Choices > max(n, 1) {
			s.Meta["choices"] = e.Reply.Choices
		}
	}
	return s
}

// answer returns the last text of the model; "" without one.
func answer(exchanges []*Exchange) string {
	for _, o := range slices.Backward(exchanges) {
		if t := strings.TrimSpace(o.Reply.Text); t != "" {
			return cut(t, textBytes)
		}
	}
	return ""
}

// lastCalls describes the tool calls of the last reply; "" without calls.
func lastCalls(exchanges []*Exchange) string {
	calls := exchanges[len(exchanges)-1].Reply.Calls
	if len(calls) == 0 {
		return ""
	}
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
	}
	return cut("called "+strings.Join(names, ", "), summaryBytes)
}

func (h *history) failures() (n int) {
	for _, s := range h.steps {
		if s.failed {
			n++
		}
	}
	return n
}

func resolution(label string) string {
	switch label {
	case Good, Acceptable:
		return label
	case Poor:
		return "bad"
	default:
		return "unknown"
	}
}

// outcome returns the outcome of the last exchange. Earlier failed exchanges do not count, because the session
// continued.
func outcome(exchanges []*Exchange) string { return exchanges[len(exchanges)-1].Outcome }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// cut shortens s to at most n bytes and marks the cut with an ellipsis. The cut is between runes and not inside
// of a placeholder.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	if open := strings.LastIndexByte(s[:n], '['); open >= 0 && strings.HasPrefix(s[open:], redact.Placeholder) && !strings.Contains(s[open:n], "]") {
		n = open
	}
	return s[:n] + "…"
}
