package detect

import (
	"io"
	"strings"
)

// Explanation tells why Inspect reported a finding.
type Explanation struct {
	Finding     Finding `json:"finding"`
	Rule        string  `json:"rule"`             // rule that decided; "" if none
	Meaning     string  `json:"meaning"`          // what the rule means
	Text        string  `json:"text"`             // the line that decided, cut to maxExplainedBytes bytes
	Line        int     `json:"line"`             // line number in the item's text, from 1
	Byte        int     `json:"byte"`             // offset of the line in the item's text
	Tool        string  `json:"tool,omitempty"`   // for a result or a loop
	Args        string  `json:"args,omitempty"`   // call arguments, cut to maxExplainedBytes bytes
	EarlierItem *int    `json:"before,omitempty"` // for a loop: index of the item with the earlier result
}

// Explain explains Inspect's n-th finding, counted from 1, and returns the total number of findings. The explanation is
// nil if there is no such finding.
func Explain(r io.Reader, n int) (*Explanation, int, error) {
	var why *Explanation
	count := 0
	err := ReadTranscripts(r, func(t Transcript) error {
		return inspectList(t.Request, func(f Finding, explain func() Explanation) error {
			if count++; count == n {
				e := explain()
				f.Source, f.ID = t.Source, t.ID
				e.Finding, e.Rule, e.Tool, e.Meaning = f, f.Rule, f.Tool, ruleMeaning(f)
				why = &e
			}
			return nil
		})
	})
	return why, count, err
}

const maxExplainedBytes = 300

// decisiveLine returns the first line that would get the same judgement as the whole text. If there is no such line, it
// returns the first line that is not blank.
func decisiveLine(text string, hasSameJudgement func(line string) bool) (e Explanation) {
	offset, n := 0, 0
	for line := range strings.Lines(cutText(text, 2*maxText)) {
		n++
		if t := strings.TrimSpace(line); t != "" {
			found := Explanation{Text: cutRunes(t, maxExplainedBytes), Line: n, Byte: offset}
			if hasSameJudgement(t) {
				return found
			}
			if e.Line == 0 {
				e = found
			}
		}
		offset += len(line)
	}
	return e
}

func explainResult(s *step) Explanation {
	v := s.judgement()
	e := decisiveLine(s.call.result.text, func(line string) bool {
		alone := compiledPhrases().classify(s.toolCall(), line, s.call.result.flag)
		return alone.Outcome == v.Outcome && alone.Rule == v.Rule && v.Rule != ""
	})
	e.Args = cutRunes(s.call.result.args, maxExplainedBytes)
	return e
}

func explainTurn(text, words, previous string, opinion Opinion) Explanation {
	if words == "" {
		words = text
	}
	return decisiveLine(words, func(line string) bool {
		alone := ClassifyTurn(line, line, previous)
		return alone.Feeling == opinion.Feeling && alone.Rule == opinion.Rule
	})
}

func ruleMeaning(f Finding) string {
	family, _, _ := strings.Cut(f.Rule, ":")
	switch {
	case f.Kind == KindLoop:
		return map[string]string{
			"failed-again": "the same call failed in the same way, and no step between may have changed the result",
			"same-again":   "the same call returned the same result, and no step between may have changed the result",
			"same-answer":  "calls that differ only in a limit, a time-out or a page returned the same result",
			"same-failure": "the tool's last calls failed in the same way, with different arguments",
			"no-change":    "the tool's last calls returned the same result, with different arguments",
			"at-prompt":    "the program waits for an answer, but the last calls only read the output",
			"nothing-new":  "all results from the last calls were returned before",
			"cycle":        "the last calls repeat the calls before, with the same results",
			"edit-undo":    "an edit was made, undone, and made again",
		}[f.Rule]
	case f.Kind == KindUser && f.Rule == "":
		return "no phrase that expresses an opinion was found"
	case f.Kind == KindUser:
		return "the user's words have a phrase from this rule, or the harness wrote the words (neutral)"
	case f.Rule == "":
		return "no failure sign was found"
	}
	if strings.HasSuffix(f.Rule, ":answer") {
		return "the words and fields of the answer are more frequent in failed answers than in successful ones"
	}
	meanings := map[string]string{
		"flag":          "the result's error flag decides",
		"exit-code":     "the command's exit code decides",
		"nothing-found": "exit code 1 from this program means that nothing was found",
		"soft":          "exit code 0, but the first words report a failure",
		"json":          "a field in the JSON result decides, or the JSON has no field for an error",
		"text":          "the text has failure words at the start or at the end",
		"page":          "the page is an error page",
		"refusal":       "the user, a rule or a headless harness did not allow the call",
		"pending":       "the call continues in the background",
		"edited":        "the tool confirms the edit",
		"matches":       "the text is a search match, not an error message",
		"content":       "the failure words are content that the tool returns",
	}
	if m := meanings[family]; m != "" {
		return m
	}
	return "the rule " + f.Rule + " decides"
}
