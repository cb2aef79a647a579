package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/internal/wire"
)

func userRequest(t *testing.T, content string) *wire.Request {
	t.Helper()
	r, err := wire.Parse(wire.Chat, []byte(`{"messages":[{"role":"user","content":`+content+`}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func jsonString(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// twoParts returns two text parts around an image. The second part begins with line.
func twoParts(text, line string) string {
	head, tail, _ := strings.Cut(text, "\n"+line)
	return `[{"type":"text","text":` + jsonString(head) + `},{"type":"image_url"},{"type":"text","text":` + jsonString(line+tail) + `}]`
}

// Some agents send one message that grows with each step. The text before the steps can also contain the label of an
// observation.
func TestSpliceInsertsTextIntoGrowingMessage(t *testing.T) {
	const (
		scratchpad = "Answer this. Quote \"it\".\n\nQuestion: what is an\nObservation: worth?\nThought: I look\nAction: ls\nAction Input: .\nObservation: RED\nThought: more\n" +
			"Action: cat\nAction Input: a\nObservation 2: BLUE\u00e9\nThought:"
		trajectory = "[[ ## question ## ]]\nwhat does\n[[ ## observation_0 ## ]]\nmean?\n\n[[ ## trajectory ## ]]\n[[ ## thought_0 ## ]]\nI look\n\n[[ ## tool_name_0 ## ]]\nls\n\n" +
			"[[ ## tool_args_0 ## ]]\n{}\n\n[[ ## observation_0 ## ]]\nRED\n\n[[ ## tool_name_1 ## ]]\ncat\n\n[[ ## observation_1 ## ]]\nBLUE\u00e9\n\n" +
			"Respond with the corresponding output fields, starting with the field `[[ ## next_thought ## ]]`"
	)
	for name, tc := range map[string]struct {
		content string
		want    []string // part of the spliced body for each result; "" if Splice fails
	}{
		"a scratchpad":                  {jsonString(scratchpad), []string{"Observation:HERE  RED", "Observation 2:HERE  BLUE"}},
		"a scratchpad in two parts":     {twoParts(scratchpad, "Thought: more"), []string{"Observation:HERE  RED", "Observation 2:HERE  BLUE"}},
		"a trajectory":                  {jsonString(trajectory), []string{`observation_0 ## ]]\nHERE RED`, `observation_1 ## ]]\nHERE BLUE`}},
		"a trajectory in two parts":     {twoParts(trajectory, "[[ ## tool_name_1"), []string{`observation_0 ## ]]\nHERE RED`, `observation_1 ## ]]\nHERE BLUE`}},
		"line feeds escaped as \\u000a": {strings.ReplaceAll(jsonString(trajectory), `\n`, `\u000a`), []string{"", ""}},
	} {
		r := userRequest(t, tc.content)
		results := r.Item(0).Results
		if len(results) != len(tc.want) {
			t.Errorf("%s: got %d results, want %d: %+v", name, len(results), len(tc.want), results)
			continue
		}
		for i, want := range tc.want {
			item, block, ok := r.Find(r.AnchorAt(0, results[i].CallID))
			out, err := r.Splice(nil, []wire.Edit{{Item: item, Block: block, Text: "HERE "}})
			switch {
			case want == "" && (ok || err == nil):
				t.Errorf("%s: result %d: Splice = %s, want an error", name, i, out)
			case want != "" && (!ok || err != nil || strings.Count(string(out), want) != 1):
				t.Errorf("%s: result %d: Find = %v, Splice = %s, error %v, want %q once", name, i, ok, out, err, want)
			case want != "":
				second := userRequest(t, string(out[len(`{"messages":[{"role":"user","content":`):len(out)-len(`}]}`)]))
				if got := second.Item(0).Results[i].Text; !strings.HasPrefix(got, "HERE") || !strings.HasSuffix(got, results[i].Text) {
					t.Errorf("%s: result %d after Splice: got %q, want HERE and %q", name, i, got, results[i].Text)
				}
			}
		}
	}
}

// A trajectory is a message in which DSPy sends all steps. A header such as "[[ ## tool_name_0 ## ]]" begins a field of
// a step. A header with an unknown name, a number above 65535, or other text on its line does not begin a field, and
// belongs to the field above.
func TestTrajectoryStepsAreReadByHeader(t *testing.T) {
	const head = "[[ ## q ## ]]\nx\n\n[[ ## trajectory ## ]]\n"
	for text, want := range map[string]string{
		"[[ ## tool_name_0 ## ]]\nls\n\n[[ ## tool_args_0 ## ]]\n{}\n\n[[ ## observation_0 ## ]]\nred":                                                                   "ls {} red 0",
		"[[ ## tool_name_0 ## ]]\nls\n[[ ## observation_0 ## ]]\n":                                                                                                       "ls   0",
		"[[ ## tool_name_0 ## ]]\nls\n[[ ## other_0 ## ]]\n[[ ## observation_0 ## ]]\nred":                                                                               "ls\n[[ ## other_0 ## ]]  red 0",
		"[[ ## tool_name_0 ## ]]\nls\n[[ ## observation_0 ## ]] red\n[[ ## observation_0 ## ]]\nblue":                                                                    "ls\n[[ ## observation_0 ## ]] red  blue 0",
		"[[ ## tool_name_0 ## ]]\nls\n[[ ## observation_70000 ## ]]\n[[ ## observation_0 ## ]]\nblue":                                                                    "ls\n[[ ## observation_70000 ## ]]  blue 0",
		"[[ ## thought_0 ## ]]\nt\n[[ ## tool_name_0 ## ]]\na\n[[ ## observation_0 ## ]]\n1\n[[ ## thought_1 ## ]]\n[[ ## observation_1 ## ]]\nExecution error in a: no": "a  1 0;  Execution error in a: no 1",
	} {
		it := userRequest(t, jsonString(head+text)).Item(0)
		var got []string
		for i, res := range it.Results {
			got = append(got, fmt.Sprint(it.Calls[i].Name, " ", it.Calls[i].Args, " ", res.Text, " ", res.IsError))
		}
		if strings.Join(got, ";") != want || it.UserText != "x" {
			t.Errorf(`%q: got steps (name, arguments, result, IsError) %q, UserText = %q, want %q, "x"`, text, got, it.UserText, want)
		}
	}
}
