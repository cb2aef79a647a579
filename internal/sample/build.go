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

// Maximum lengths in a sample. The exchanges hold the full text.
const (
	summaryBytes = 2000
	textBytes    = 8000
)

const (
	noUserText = "(no words of the user)"
	noText     = "(no text)"
)

// Build returns a closed session's learning samples (docs/SAMPLES.md explains the families). A session with tool calls
// has an intent_resolution, and a dialog_response for each user turn after the first. A session without tool calls has
// a dialog_response for each user turn.
//
// For an unchanged session, Build returns identical samples with identical ids.
func Build(s Session) []Sample {
	h := s.history()
	if len(h.exchanges) == 0 {
		return nil
	}
	var out []Sample
	from := 0
	if len(h.calls) > 0 {
		out = append(out, h.intentSample())
		from = 1
	}
	for i := from; i < len(h.userTurns); i++ {
		out = append(out, h.dialogSample(h.dialogNumber(i), &h.userTurns[i], i == len(h.userTurns)-1))
	}
	if h.isSingleExchange() {
		return out
	}
	out = append(out, h.corrections()...)
	if reasons := h.costReasons(); len(reasons) > 0 {
		out = append(out, h.planSample(reasons))
	}
	return out
}

func (h *history) intentSample() Sample {
	first := h.userTurns[0]
	f, label := h.ratingFor(0, 0, true)
	s := h.baseSample(IntentResolution, 0, h.exchanges, f, label)
	s.Input["intent_id"] = deriveID(h.Session.Tenant, h.Session.ID, "intent", 0)
	s.Input["raw_request_summary"] = cmp.Or(truncate(first.userText, summaryBytes), noUserText)
	s.Input["dialog_turns_count"] = len(h.userTurns)
	s.Output["final_intent_summary"] = cmp.Or(lastAnswer(h.exchanges), describeLastCalls(h.exchanges))
	s.Output["resolution_quality_label"] = resolutionLabel(f.QualityLabel)
	s.Output["tool_calls"] = len(h.calls)
	s.Output["failed_calls"] = h.countFailures()
	return s
}

// dialogNumber returns the number from which a dialog_response's id is derived. The number must not change if the
// session continues. If the session's first tool call comes in a later user turn, the first turn may already have a
// dialog_response, so the turns keep their numbers. The first exchanges might have been deleted (learning.hot) after
// their samples were exported, so the numbers start at firstNumber.
func (h *history) dialogNumber(part int) int {
	part += h.firstNumber()
	if len(h.calls) > 0 && h.calls[0].Turn < h.secondUserTurnStart() {
		return part - 1
	}
	return part
}

// firstNumber returns the first sample number (n in deriveID) for the stored turns. It is greater than any number that
// a deleted turn could have used.
func (h *history) firstNumber() int {
	const maxPerTurn = 1 << 16 // maximum number of samples of one family per turn
	first := h.Session.Exchanges[0].Turn
	for i := range h.Session.Exchanges {
		first = min(first, h.Session.Exchanges[i].Turn)
	}
	return max(first-1, 0) * maxPerTurn
}

func (h *history) secondUserTurnStart() int {
	if len(h.userTurns) < 2 {
		return math.MaxInt
	}
	return h.userTurns[1].exchanges[0].Turn
}

func (h *history) dialogSample(n int, p *userTurn, last bool) Sample {
	from, to := p.turns()
	f, label := h.ratingFor(from, to, last && len(h.calls) == 0)
	s := h.baseSample(DialogResponse, n, p.exchanges, f, label)
	s.Input["user_text"] = cmp.Or(truncate(p.userText, textBytes), noUserText)
	s.Input["turn"] = from
	s.Output["response_text"] = lastAnswer(p.exchanges)
	return s
}

func (h *history) baseSample(family string, n int, exchanges []*Exchange, f Feedback, label string) Sample {
	last := exchanges[len(exchanges)-1]
	s := Sample{
		ID:        deriveID(h.Session.Tenant, h.Session.ID, family, n),
		Family:    family,
		CreatedAt: last.At.Add(milliseconds(last.LatencyMS)).UTC().Truncate(time.Millisecond),
		Input:     map[string]any{},
		State:     map[string]any{"dialect": last.Dialect, "model": last.Model},
		Output:    map[string]any{"outcome": lastOutcome(exchanges)},
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
		s.Output["error"] = truncate(last.Reply.Error, summaryBytes)
	}
	if configHash := last.Config; configHash != "" {
		s.Meta["source_flow_id"] = configHash
	}
	if ids := eventIDs(exchanges); len(ids) > 0 {
		s.Meta["source_event_ids"] = ids
	}
	if lessons := collectLessons(exchanges); len(lessons) > 0 {
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

func lastAnswer(exchanges []*Exchange) string {
	for _, o := range slices.Backward(exchanges) {
		if t := strings.TrimSpace(o.Reply.Text); t != "" {
			return truncate(t, textBytes)
		}
	}
	return ""
}

func describeLastCalls(exchanges []*Exchange) string {
	calls := exchanges[len(exchanges)-1].Reply.Calls
	if len(calls) == 0 {
		return ""
	}
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.Name
	}
	return truncate("called "+strings.Join(names, ", "), summaryBytes)
}

func (h *history) countFailures() (n int) {
	for _, s := range h.calls {
		if s.failed {
			n++
		}
	}
	return n
}

func resolutionLabel(label string) string {
	switch label {
	case Good, Acceptable:
		return label
	case Poor:
		return "bad"
	default:
		return "unknown"
	}
}

// lastOutcome returns the last exchange's outcome. An earlier failure is ignored, because the session continued.
func lastOutcome(exchanges []*Exchange) string { return exchanges[len(exchanges)-1].Outcome }

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// truncate shortens s to n bytes with an ellipsis, without cutting a rune or a placeholder.
func truncate(s string, n int) string {
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
