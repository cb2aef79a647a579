package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A scratchpad is a user message with the question and all steps so far. Rules and examples that look like steps belong
// to the question.
func TestParseScratchpadSeparatesQuestionAndSteps(t *testing.T) {
	const rules = "Use this:\n\nQuestion: the question\nThought: think\nAction: the action\nAction Input: its input\nObservation: what came\n... (again)\nThought: I know\nFinal Answer: it\n\nBegin!\n\n"
	for text, want := range map[string]string{
		rules + "Question: x\nThought:": "",
		rules + "Question: x\nThought: I look\nAction: ls\nAction Input: .\nObservation: a\nb\nThought: ":                                                                                     "ls|.|a\nb",
		rules + "Question: x\nAction: ls\nAction Input: .\nObservation: a\nThought: so\nAction: cat\nAction Input: a\nObservation:\nThought:":                                                 "ls|.|a",
		"Question: 1\nThought 1: t\nAction 1: Search[a]\nObservation 1: no\nThought 2: so\nAction 2: Finish[b]\nQuestion: 2\nThought 1: u\nAction 1: Look[c]\nObservation 1: yes\nThought 2:": `Look|{"command":"c"}|yes`,
		"x\n\nSo far:\nThought: t\nAction:\n```\n{\"action\": \"f\", \"action_input\": {\"a\": 1}}\n```\nObservation: o\nThought: \n (reply with one object)":                                 `f|{"action":"f","action_input":{"a":1}}|o`,
		"Why does it do this?\nThought: t\nAction: ls\nAction Input: .\nObservation: a":                                                                                                       "",
		"Why does it do this?\nThought: t\nAction: ls\nAction Input: .\nObservation: a\nThought: I know\nFinal Answer: it":                                                                    "",
		"Observation posts are high.\nThought: so\nThought:":                                                                                                                                  "",
		strings.Repeat("Action: a\nAction Input: b\nObservation: c\n", maxScratchpadSteps+1) + "Thought:":                                                                                     "",
	} {
		body, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}})
		r := mustParse(t, Chat, string(body))
		it, got := r.Item(0), []string(nil)
		for i, c := range it.Calls {
			got = append(got, c.Name+"|"+strings.NewReplacer("\n", "", ": ", ":", ", ", ",").Replace(c.Args)+"|"+it.Results[i].Text)
		}
		if strings.Join(got, ";") != want {
			t.Errorf("%.90q: got steps (name|arguments|result) %q, want %q", text, got, want)
		}
		if question, _, ok := parseScratchpad(text); ok && it.UserText != question {
			t.Errorf("%.60q: got UserText = %q, want %q", text, it.UserText, question)
		}
	}
}

func TestSpliceIntoGrowingScratchpad(t *testing.T) {
	text := "Observe:\nObservation rules: none\\\\nObservation\nQuestion: \u00e9\nThought:"
	var userText string
	for n := range 4 {
		body, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}})
		r := mustParse(t, Chat, string(body))
		if n == 0 {
			userText = r.Item(0).UserText
		}
		if r.Item(0).UserText != userText || len(r.Item(0).Results) != n || r.Item(0).Text != text {
			t.Fatalf("after %d steps: got %+v, want UserText = %q, %d results and the unchanged text", n, r.Item(0), userText, n)
		}
		for i, res := range r.Item(0).Results {
			a := r.AnchorAt(0, res.CallID)
			item, block, ok := r.Find(a)
			out, err := r.Splice(nil, []Edit{{Item: item, Block: block, Text: "HERE "}})
			if !ok || err != nil || !strings.Contains(string(out), fmt.Sprintf("Observation:HERE  came %d", i)) {
				t.Errorf("result %d of %d: Find = %v, Splice = %s, error = %v, want the text before the result", i, n, ok, out, err)
			}
		}
		text += fmt.Sprintf(" I act\nAction: f\nAction Input: %d\nObservation: came %d\nThought:", n, n)
	}
}

// Splice caches an item's lines, and must not use them for another item.
func TestSpliceIntoTwoScratchpads(t *testing.T) {
	long := strings.Repeat("A longer introduction.\n", 9)
	pad := func(intro, result string) map[string]any {
		return map[string]any{"role": "user", "content": intro + "Question: x\nThought: t\nAction: f\nAction Input: 1\nObservation: " + result + "\nThought:"}
	}
	body, _ := json.Marshal(map[string]any{"messages": []any{pad("", "first"), map[string]any{"role": "assistant", "content": "ok"}, pad(long, "second")}})
	r := mustParse(t, Chat, string(body))
	for _, item := range []int{0, 2, 0} {
		res := r.Item(item).Results[0]
		out, err := r.Splice(nil, []Edit{{Item: item, Block: res.Block, Text: "HERE "}})
		if want := "Observation:HERE  " + map[int]string{0: "first", 2: "second"}[item]; err != nil || !strings.Contains(string(out), want) {
			t.Errorf("Splice into item %d = %s, error %v, want %q in the body", item, out, err, want)
		}
	}
}
