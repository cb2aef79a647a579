package detect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// answered and offered are what an agent said before a person's turn.
const (
	answered = "Done. The cart now sums the items."
	offered  = "The cart now sums the items. Would you like me to book it?"
)

// hears is how the phrases read the case of a class.
func hears(p *phrases, class, text string) string {
	kind, _, _ := strings.Cut(class, " ")
	switch kind {
	case "refusal":
		by, rule, _ := p.refusalLine(strings.ToLower(text))
		return fmt.Sprint(by, " ", rule)
	case "error", "error-ends", "error-alone", "unable", "invalid", "missing":
		rule, _ := p.statement(text)
		return rule
	case "complaint", "no-complaint":
		return fmt.Sprint(p.complains(text))
	case "command":
		return fmt.Sprint(p.command.opens(text))
	case "shell":
		return fmt.Sprint(p.shellComplains(text))
	case "side-says":
		return p.sideWording(text, "", 1)
	case "side-is":
		return p.sideWording("", text, 1)
	case "side-title", "side-title-of", "side-summary", "side-commit", "side-commit-of":
		return p.sideWording("", text, 0)
	case "question":
		const words = "sure, with the list that you showed me"
		return fmt.Sprint(p.readTurn(words, words, text))
	case "fact":
		return fmt.Sprint(p.readTurn(text, text, offered))
	}
	return fmt.Sprint(p.readTurn(text, text, answered))
}

// A phrase is in the list because a case needs it: without its line its case is read in another
// way.
func TestEachPhraseIsNeeded(t *testing.T) {
	list, err := readPhrases(phrasesText)
	if err != nil || len(list) < 900 {
		t.Fatalf("%d phrases, %v", len(list), err)
	}
	for _, fault := range needless(t, list) {
		t.Error(fault)
	}
}

// needless tells the phrases that no case needs.
func needless(t *testing.T, list []listed) (faults []string) {
	t.Helper()
	all, err := compile(list)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range list {
		less, err := compile(slices.Delete(slices.Clone(list), i, i+1))
		if err != nil {
			t.Fatal(err)
		}
		if got := hears(all, l.class, l.text); got == hears(less, l.class, l.text) {
			faults = append(faults, fmt.Sprintf("phrases.tsv:%d: without %s %q its case %q is read as before (%s): "+
				"give it a case that needs it, or delete it", l.line, l.class, l.phrase, l.text, got))
		}
	}
	return faults
}

// The test above finds a phrase that another one makes needless, and one that is never reached.
func TestNeedlessPhrasesAreFound(t *testing.T) {
	list, err := readPhrases("praise\ten\tworks now\tit works now\n" + "praise\ten\tit works now\tit works now\n" +
		"thanks\ten\tthanks\tthanks, it works now\n" + "# a note\n\n" + "shell\ten\t\": is a \"\tcat: x: is a y\n")
	if err != nil {
		t.Fatal(err)
	}
	got := needless(t, list)
	if len(got) != 3 || !strings.Contains(got[2], "tsv:3") {
		t.Errorf("%q", got)
	}
}

func TestAListOfPhrasesIsRead(t *testing.T) {
	for _, text := range []string{"praise\ten\tgood", "praise\ten\t\tgood", "praise\ten\t\"good\tgood"} {
		if _, err := readPhrases(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if _, err := compile([]listed{{class: "prase", phrase: "good", line: 7}}); err == nil || !strings.Contains(err.Error(), "tsv:7") {
		t.Errorf("an unknown class: %v", err)
	}
	list, err := readPhrases("missing\ten\t\" not found\"\tx\n")
	if err != nil || list[0].phrase != " not found" {
		t.Errorf("%+v, %v", list, err)
	}
}

// BenchmarkReadTurn reads what people say: short and long, and nothing of interest in it.
func BenchmarkReadTurn(b *testing.B) {
	for name, text := range map[string]string{
		"short": "ok, but make it a little shorter",
		"long":  strings.Repeat("The list of the cart is to be sorted by name, and each of the items has a price. ", 40),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ReadTurn(text, text, answered)
			}
		})
	}
}

// BenchmarkClassify judges the output of a command, and the answer of a tool of one's own.
func BenchmarkClassify(b *testing.B) {
	for _, c := range []struct{ name, tool, text string }{
		{"command", "bash", strings.Repeat("src/cart.go: the total of the items is 7 and nothing is missing here\n", 60)},
		{"own", "cart_total", "The total of the cart is 7, and the list of its items was sorted by name."},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				Classify(c.tool, `{"command":"make"}`, c.text, 0)
			}
		})
	}
}
