package sample

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// A session that reaches at least one of these values gets a plan_optimization sample.
const (
	minCostlyCalls    = 25
	minCostlyTokens   = 400_000
	minCostlyFailures = 5
	slowMS            = 600_000 // milliseconds of model time
)

// maxOpenFailures bounds the failed calls that corrections compares with each later call. A session can have ten
// thousand failed calls.
const maxOpenFailures = 64

// corrections returns a sample for each call that worked after failed calls to the same tool with the same aim and
// different arguments. The sample contains the last failed call, and the number of failed calls.
func (h *history) corrections() []Sample {
	var out []Sample
	var open []*Event
	for _, s := range h.calls {
		if !s.Answered {
			continue
		}
		if s.failed {
			open = append(open[max(0, len(open)-maxOpenFailures+1):], s)
			continue
		}
		var failed *Event
		attempts := 0
		rest := open[:0:0]
		for _, f := range open {
			switch {
			case f.Call.Name != s.Call.Name || !sameAim(f.Call.Args, s.Call.Args):
				rest = append(rest, f)
			case f.Call.Args != s.Call.Args: // if the arguments are equal, the failure had another cause
				failed = f
				attempts++
			}
		}
		open = rest
		if failed != nil {
			out = append(out, h.correctionSample(h.firstNumber()+len(out), failed, s, attempts))
		}
	}
	return out
}

func (h *history) correctionSample(n int, failed, worked *Event, attempts int) Sample {
	exchanges := h.exchangesBetween(failed.Turn, worked.Turn)
	f, label := h.ratingFor(failed.Turn, worked.Turn, false)
	if f.QualityLabel == "" && !worked.edited {
		f = unchangedCallFeedback()
	}
	s := h.baseSample(ErrorCorrection, n, exchanges, f, label)
	s.Input["tool"] = failed.Call.Name
	s.Input["failed_call"] = map[string]any{"name": failed.Call.Name, "arguments": truncate(failed.Call.Args, textBytes)}
	s.Input["error"] = cmp.Or(truncate(failed.Text, summaryBytes), noText)
	s.Input["attempts"] = attempts
	s.Output["corrected_call"] = map[string]any{"name": worked.Call.Name, "arguments": truncate(worked.Call.Args, textBytes)}
	s.Output["result_summary"] = cmp.Or(truncate(worked.Text, summaryBytes), noText)
	return s
}

func (h *history) exchangesBetween(from, to int) []*Exchange {
	return slices.DeleteFunc(slices.Clone(h.exchanges), func(e *Exchange) bool { return e.Turn < from || e.Turn > to })
}

// sameAim reports whether two calls' arguments share a third of the words in the shorter arguments.
func sameAim(a, b string) bool {
	wa, wb := argWords(a), argWords(b)
	if len(wa) == 0 || len(wb) == 0 {
		return true
	}
	common := 0
	for w := range wa {
		if wb[w] {
			common++
		}
	}
	return common*3 >= min(len(wa), len(wb))
}

// argWords returns at most 200 words from the argument values. Keys are omitted, because all calls to a tool have the
// same keys; single letters say nothing about the aim.
func argWords(args string) map[string]bool {
	const maxWords = 200
	if strings.HasPrefix(args, "{") {
		args = withoutKeys(args)
	}
	words := map[string]bool{}
	for w := range strings.FieldsFuncSeq(strings.ToLower(args), func(r rune) bool {
		return r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	}) {
		if len(words) == maxWords {
			break
		}
		if len(w) > 1 {
			words[w] = true
		}
	}
	return words
}

func withoutKeys(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			b.WriteByte(text[i])
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(text))
		if rest := strings.TrimLeft(text[min(end+1, len(text)):], " \t\r\n"); !strings.HasPrefix(rest, ":") {
			b.WriteString(text[i:end])
		}
		i = end
	}
	return b.String()
}

func (h *history) costReasons() []string {
	var reasons []string
	used := tokens(h.exchanges)
	if len(h.calls) >= minCostlyCalls {
		reasons = append(reasons, "many_calls")
	}
	if n := used["input"].(int) - used["cached"].(int) + used["output"].(int); n >= minCostlyTokens {
		reasons = append(reasons, "many_tokens")
	}
	if h.countFailures() >= minCostlyFailures {
		reasons = append(reasons, "many_failures")
	}
	if h.loops > 0 {
		reasons = append(reasons, "loop")
	}
	if h.modelMS() >= slowMS {
		reasons = append(reasons, "slow")
	}
	return reasons
}

func (h *history) modelMS() (ms float64) {
	for _, e := range h.exchanges {
		ms += e.LatencyMS
	}
	return ms
}

func (h *history) planSample(reasons []string) Sample {
	f, label := h.ratingFor(0, 0, true)
	s := h.baseSample(PlanOptimization, 0, h.exchanges, f, label)
	s.Input["raw_request_summary"] = cmp.Or(truncate(h.userTurns[0].userText, summaryBytes), noUserText)
	s.Input["reasons"] = reasons
	s.Input["tool_calls"] = len(h.calls)
	s.Input["failed_calls"] = h.countFailures()
	s.Input["loops"] = h.loops
	s.Input["model_ms"] = int(h.modelMS())
	s.Output["result_summary"] = lastAnswer(h.exchanges)
	s.Output["repeated_calls"] = h.repeatedCalls()
	return s
}

func (h *history) repeatedCalls() []map[string]any {
	const maxEntries = 10
	type entry struct {
		call  Call
		count int
	}
	var all []*entry
	byCall := map[[2]string]*entry{}
	for _, s := range h.calls {
		key := [2]string{s.Call.Name, s.Call.Args}
		if e := byCall[key]; e != nil {
			e.count++
			continue
		}
		e := &entry{call: s.Call, count: 1}
		byCall[key] = e
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b *entry) int { return b.count - a.count })
	out := []map[string]any{}
	for _, e := range all {
		if e.count < 2 || len(out) == maxEntries {
			break
		}
		out = append(out, map[string]any{"name": e.call.Name, "arguments": truncate(e.call.Args, summaryBytes), "count": e.count})
	}
	return out
}
