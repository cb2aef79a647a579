package detect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	agentAnswer = "Done. The cart now sums the items."
	agentOffer  = "The cart now sums the items. Would you like me to book it?"
)

// resultForPhrase applies the rule that uses phrases of the given class to the text of a test case. It returns the
// result as a string, so that the test can compare results of different types.
func resultForPhrase(p *phrases, class, phrase, text string) string {
	kind, _, _ := strings.Cut(class, " ")
	switch kind {
	case "refusal":
		refuser, rule := p.refusalLine(strings.ToLower(text))
		return fmt.Sprint(refuser, " ", rule)
	case "error", "error-word", "error-ends", "error-alone", "unable", "invalid", "missing", "missing-anywhere":
		rule, _ := p.errorMessageRule(text)
		return rule
	case "about-call", "word-class":
		name := map[string]string{"about-call": "get_film"}[class]
		call := p.analyseCall(cmp.Or(name, "get_cart"), "{}")
		return fmt.Sprint(p.classify(&call, text, 0))
	case "complaint", "no-complaint":
		return fmt.Sprint(p.isErrorMessageField(text))
	case "command", "shell", "shell-anywhere", "command-anywhere", "fails", "reports", "error-line":
		rule, weight := p.gradeLine(text)
		return fmt.Sprint(rule, weight, p.line.command.match(text), p.isShellError(text))
	case "done":
		return fmt.Sprint(p.isSuccessLine(text))
	case "own-failure", "own-note":
		return fmt.Sprint(p.isProgramError(text))
	case "time-of", "time-up":
		return fmt.Sprint(p.reportsTimeOut(text))
	case "edited", "not-edited", "edit-shown", "edit-failed":
		return fmt.Sprint(p.judgeEdit(text))
	case "passing", "status-before":
		return fmt.Sprint(p.isTransient(Judgement{}, []string{text}))
	case "empty":
		return fmt.Sprint(p.unframe(text).isEmpty)
	case "call-fails":
		call := p.analyseCall("bash", `{"command":"ls"}`)
		return fmt.Sprint(p.classify(&call, text, 0))
	case "page-title", "page-heading":
		rule, _ := p.errorPageRule(text, true)
		return rule
	case "status-behind", "status-in", "status-word", "counted-errors":
		rule, _ := p.errorMessageRule(text)
		return rule
	case "refusal-behind":
		refuser, _ := p.refusalLine(text)
		return string(refuser)
	case "pasted":
		own, pasted := p.withoutPasted(text)
		return fmt.Sprint(own, pasted)
	case "frame-varies":
		return fmt.Sprint(p.stableHash(text, false))
	case "unfinished", "no-activity":
		return fmt.Sprint(p.isUnfinished(text))
	case "reopens":
		return fmt.Sprint(p.mentionsChange(text))
	case "unit", "numbered", "duration-of", "id-of":
		return string(p.appendStable(nil, text))
	case "background", "still-running":
		rule, _ := p.readPending(text)
		return rule
	case "frame-head", "frame-tail", "banner", "code", "code-marked", "code-of", "code-behind", "code-in-line":
		call := p.analyseCall("bash", `{"command":"make"}`)
		return fmt.Sprint(p.classify(&call, text, 0))
	case "side-says":
		return p.sideKind(text, "", 1)
	case "side-is":
		return p.sideKind("", text, 1)
	case "side-order", "side-verb", "side-tag", "side-asks", "side-answers", "side-no-order", "side-polite":
		return p.sideKind(text, "", 0)
	case "side-title", "side-title-of", "side-summary", "side-commit", "side-commit-of":
		return p.sideKind("", text, 0)
	case "question":
		const message = "sure, with the list that you showed me"
		return fmt.Sprint(p.classifyTurn(message, message, text))
	case "unknown-answer", "about-answer":
		return fmt.Sprint(p.classifyTurn(text, text, "We have two sizes. What do you want?"))
	case "offer":
		return fmt.Sprint(p.classifyTurn("no, i'd rather have two", "no, i'd rather have two", text))
	case "claim":
		return fmt.Sprint(p.classifyTurn("it is still red", "it is still red", text))
	case "fact":
		return fmt.Sprint(p.classifyTurn(text, text, agentOffer))
	case "budget-option":
		loose, _ := p.commandWithoutBudgets(text)
		return loose
	case "agent":
		return fmt.Sprint(p.inList(class, text))
	case "tool", "verb", "key", "runs-on", "timed-out", "no-error", "ended", "ended-anywhere", "program", "option", "goal", "waits", "polls", "carries", "path", "sleeps":
		return callResultForPhrase(p, class, phrase, text)
	}
	return fmt.Sprint(p.classifyTurn(text, text, agentAnswer))
}

// callResultForPhrase handles the classes in which a test case is a call, a command, a JSON object or arguments.
func callResultForPhrase(p *phrases, class, phrase, text string) string {
	describeCall := func(name, args, result string) string {
		c := p.analyseCall(name, args)
		return fmt.Sprint(c.purpose, c.runsCode(), c.command, c.shell.readOnly, c.shell.statusMasked, c.shell.waits, c.shell.polls, c.verificationKind(),
			c.mayChange(), c.pressesKey(), p.classify(&c, result, 0))
	}
	switch kind, _, _ := strings.Cut(class, " "); {
	case class == "program shell":
		return describeCall("run_command", `{"command":`+text+`}`, "")
	case class == "program wordy":
		line, _ := p.canonicalLine(text)
		return line
	case kind == "program" || kind == "option" || kind == "goal" || kind == "waits" || kind == "polls" || kind == "carries" || kind == "path" || kind == "sleeps":
		result := "Exit code: 1"
		if class == "program errs" {
			_, result, _ = strings.Cut(phrase+"boom", " ")
		}
		args, _ := json.Marshal(map[string]string{"command": text})
		return describeCall("bash", string(args), result)
	case class == "ended-anywhere":
		call := p.analyseCall("bash", `{"command":"sleep 5; poll"}`)
		return fmt.Sprint(call.reportsEnd(text))
	case class == "ended":
		call := p.analyseCall("get_job", "{}")
		return fmt.Sprint(call.reportsEnd(text))
	case kind == "key" || kind == "runs-on" || kind == "timed-out" || kind == "no-error":
		call := p.analyseCall("read_it", text)
		if class == "key note" {
			return describeCall("my_plan", `{"`+text+`":"x"}`, "")
		}
		if class == "key budget" {
			return fmt.Sprint(identityWithoutBudget("get", text) != 0, p.areKeys("budget", call.args.keys))
		}
		if class == "key cursor" || class == "key position" {
			return fmt.Sprint(identityWithoutBudget("get", text) != 0, p.areKeys(strings.TrimPrefix(class, "key "), call.args.keys))
		}
		canonical, literals := p.canonicalArgs(text, true), call.literals(text)
		return fmt.Sprint(canonical, literals, p.signatureText(text), describeCall("read_it", text, text), describeCall("run_command", text, text),
			describeCall("read_it", `{"path":"a.go"}`, text))
	}
	name, args, _ := strings.Cut(text, " ")
	args, result, ok := strings.Cut(args, "} ")
	if ok {
		args += "}"
	}
	return describeCall(name, args, result)
}

// Each line in phrases.tsv and calls.tsv has a phrase and a test case. Without the phrase, the result must differ.
func TestEachPhraseDecidesItsTestCase(t *testing.T) {
	list, err := readLists()
	if err != nil || len(list) < 2000 {
		t.Fatalf("readLists = %d phrases, error %v, want at least 2000 phrases and no error", len(list), err)
	}
	for _, message := range unneededPhrases(t, list) {
		t.Errorf("unneeded phrase: %s", message)
	}
}

func unneededPhrases(t *testing.T, list []listLine) (faults []string) {
	t.Helper()
	all := compile(list)
	for i, l := range list {
		reduced := withoutPhrase(all, list, i)
		if got := resultForPhrase(all, l.class, l.phrase, l.testCase); got == resultForPhrase(reduced, l.class, l.phrase, l.testCase) {
			faults = append(faults, fmt.Sprintf("%s: the result for test case %[4]q is %[5]s with and without the %[2]s phrase %[3]q: "+
				"change the test case or delete the phrase", l.position, l.class, l.phrase, l.testCase, got))
		}
	}
	return faults
}

func withoutPhrase(all *phrases, list []listLine, i int) *phrases {
	class, phrase := list[i].class, list[i].phrase
	if len(all.lists[class]) == 0 { // compile does not keep this class in lists
		reduced := compile(slices.DeleteFunc(slices.Clone(list), func(l listLine) bool {
			return l == list[i] || len(all.lists[l.class]) > 0
		}))
		reduced.lists, reduced.sets, reduced.toolLists = all.lists, all.sets, all.toolLists
		return reduced
	}
	reduced := *all
	reduced.lists, reduced.sets = maps.Clone(all.lists), maps.Clone(all.sets)
	reduced.lists[class] = slices.DeleteFunc(slices.Clone(reduced.lists[class]), func(p string) bool { return p == phrase })
	reduced.sets[class] = maps.Clone(reduced.sets[class])
	delete(reduced.sets[class], phrase)
	if listName, isTool := strings.CutPrefix(class, "tool "); isTool {
		reduced.toolLists = maps.Clone(all.toolLists)
		reduced.toolLists[phrase] = slices.DeleteFunc(slices.Clone(reduced.toolLists[phrase]), func(name string) bool { return name == listName })
	}
	return &reduced
}

// The phrases on lines 1 and 2 are unneeded, because both test cases contain both phrases. Line 3 is unneeded, because
// a phrase with class praise decides the test case.
func TestUnneededPhrasesAreFound(t *testing.T) {
	list, err := readList("a.tsv", "praise\ten\tworks now\tit works now\n"+"praise\ten\tit works now\tit works now\n"+
		"thanks\ten\tthanks\tthanks, it works now\n"+"# a note\n\n"+"shell\ten\t\"is a \"\tcat: x: is a y\n")
	if err != nil {
		t.Fatal(err)
	}
	got := unneededPhrases(t, list)
	if len(got) != 3 || !strings.Contains(got[2], "tsv:3") {
		t.Errorf("unneededPhrases = %q, want messages for lines 1, 2 and 3", got)
	}
}

func TestReadListRejectsInvalidLines(t *testing.T) {
	for _, text := range []string{"praise\ten\tgood", "praise\ten\t\tgood", "praise\ten\t\"good\tgood"} {
		if _, err := readList("a.tsv", text); err == nil {
			t.Errorf("readList(%q): err = nil, want an error", text)
		}
	}
	list, err := readList("a.tsv", "missing\ten\t\" not found\"\tx\n")
	if err != nil || list[0].phrase != " not found" {
		t.Errorf(`readList = %+v, error %v, want the phrase " not found" and no error`, list, err)
	}
}

func BenchmarkClassifyTurn(b *testing.B) {
	for name, text := range map[string]string{
		"short": "ok, but make it a little shorter",
		"long": strings.Repeat(
			"The list of the cart is to be sorted by name, and each of the items has a price. ", 40,
		),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ClassifyTurn(text, text, agentAnswer)
			}
		})
	}
}

func BenchmarkClassify(b *testing.B) {
	for _, tc := range []struct{ name, tool, text string }{
		{
			"command", "bash",
			strings.Repeat(
				"src/cart.go: the total of the items is 7 and nothing is missing here\n", 60,
			),
		},
		{
			"custom tool", "cart_total",
			"The total of the cart is 7, and the list of its items was sorted by name.",
		},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.SetBytes(int64(len(tc.text)))
			b.ReportAllocs()
			for b.Loop() {
				Classify(tc.tool, `{"command":"make"}`, tc.text, 0)
			}
		})
	}
}
