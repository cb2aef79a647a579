package detect_test

import (
	_ "embed"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/detect"
	"precept/internal/wire"
)

//go:embed testdata/turns.tsv
var turnCases string

func TestClassifyTurnReturnsTheFeeling(t *testing.T) {
	const done, offer = "Done. The cart now sums the items.", "I can move the helper too. Would you like me to do that?"
	for _, tc := range []struct {
		message, previous string
		want              detect.Feeling
	}{
		{"Add a discount to the cart.", "", detect.Neutral},
		{"No, that's wrong.", "", detect.Neutral}, // before the first answer
		{"no, that's wrong", done, detect.Rejection},
		{"that doesn't work", done, detect.Rejection},
		{"Still fails with the same error", done, detect.Rejection},
		{"it crashed when I clicked on pay", done, detect.Rejection},
		{"undo that please", done, detect.Rejection},
		{"wtf", done, detect.Rejection},
		{"Isso não funciona", done, detect.Rejection},
		{"das funktioniert nicht", done, detect.Rejection},
		{"不对", done, detect.Rejection},
		{
			"Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'", done,
			detect.Rejection,
		},
		{"No, I don't want to be called back.", offer, detect.Rejection},
		{"no, use the other helper instead", done, detect.Correction},
		{"don't touch the tests", done, detect.Correction},
		{"Actually, put it into the model", done, detect.Correction},
		{"it should be a float", done, detect.Correction},
		{"I meant the second list", done, detect.Correction},
		{"you forgot the header", done, detect.Correction},
		{"ok, but make it a little shorter", done, detect.Correction},
		{"why did you delete the comment?", done, detect.Correction},
		{"Thanks, but it should be sorted", done, detect.Correction},
		{"still red", done, detect.Rejection},
		{"You used the wrong tax.", done, detect.Rejection},
		{"the columns are wrong", done, detect.Rejection},
		{"the prices don't line up and the footer isn't visible", done, detect.Rejection},
		{"the prices are not being saved anymore", done, detect.Rejection},
		{"it doesnt even start", done, detect.Rejection},
		{"If the prices don't load, write a note.", done, detect.Neutral},
		{"Drop all rows that aren't visible.", done, detect.Neutral},
		{"Write a footer. It must not load fonts.", done, detect.Neutral},
		{"don't show the prices", done, detect.Correction},
		{"still no prices at all in the basket", "I took a look at the basket.", detect.Rejection},
		{"still want to see the prices", done, detect.Neutral},
		{"great! now write the commit message for all of it, with a title and with a list of the files", done, detect.Approval},
		{"ok, nice. now the same for the invoices, with one row for each of the items", done, detect.Approval},
		{"great idea for the invoices, with one row for each of the items in it", done, detect.Neutral},
		{"the prices look good, but the footer is gone", done, detect.Correction},
		{"yeah but the server was started before that", done, detect.Correction},
		{"right now each save calls the handler two times", done, detect.Neutral},
		{"add a filter for invoices, it should be a list", done, detect.Neutral},
		{"For each of the invoices in the second folder, read the rows and the sums, and write them to one file rather than to one file per month.", done, detect.Neutral},
		{"esto da este error", done, detect.Rejection},
		{"there is still a gap below the footer", done, detect.Rejection},
		{"是第二个吗", done, detect.Neutral},
		{"好的，我已经把它移到第二个文件夹里了", done, detect.Neutral},
		{"I ran it again:\n" + strings.Repeat("web-1  | GET /carts 200\n", 20) + "web-1  | 2026-03-04 10:11:12 Error: connect ECONNREFUSED 10.0.0.7:5432", done, detect.Rejection},
		{"[10:11:12.345] Error: Command \"make carts\" exited with 2", done, detect.Rejection},
		{"add it to the footer instead", done, detect.Correction},
		{"tabs, not blanks", done, detect.Correction},
		{"we never commit keys", done, detect.Correction},
		{"The list is supposed to be empty.", done, detect.Correction},
		{"I told you to keep the header", done, detect.Correction},
		{"nice catch", done, detect.Approval},
		{"wait, don't merge yet, let me read the list", done, detect.Neutral},
		{"ok I'll wait", done, detect.Neutral},
		{"No, I'd rather have two of the small ones.", "I can send one of the large ones.", detect.Neutral},
		{"Exit code: 2\nOutput:\nmake: *** [all] Error 2", done, detect.Neutral},
		{"<task_result>\nthe cart is broken\n</task_result>", done, detect.Neutral},
		{"yes", offer, detect.Approval},
		{"Yes please, go ahead!", offer, detect.Approval},
		{"go ahead", done, detect.Approval},
		{"do that", offer, detect.Approval},
		{"sounds good", offer, detect.Approval},
		{"perfect, that works", done, detect.Approval},
		{"ok", offer, detect.Approval},
		{"sim, pode fazer", offer, detect.Approval},
		{"はい", offer, detect.Approval},
		{"thanks!", done, detect.Thanks},
		{"Thank you so much", done, detect.Thanks},
		{"obrigado", done, detect.Thanks},
		{"danke schön", done, detect.Thanks},
		{"yes, can you also sort the items of it by name then?", offer, detect.Approval},
		{"yes, can you also sort the items of it by name then?", done, detect.Neutral},
		{"yes " + strings.Repeat("and the list of it ", 9), offer, detect.Approval},
		{"yes " + strings.Repeat("and the list of it ", 9), done, detect.Neutral},
		{"yes, a little shorter", offer, detect.Correction},
		{"yes, but use the other helper instead", offer, detect.Correction},
		{"yes, thanks", offer, detect.Approval},
		{"yes, thanks", done, detect.Thanks},
		{"ok, is it done?", done, detect.Neutral},
		{"ok, move it with all that belongs to it", offer, detect.Approval},
		{"ok, move it with all that belongs to it, and then sort the whole list again", offer, detect.Neutral},
		{"ok, use the other helper instead of this one for the items", done, detect.Correction},
		{"```\nit doesn't work\n```", done, detect.Neutral}, // a code block
		{"> that's wrong\nhm", done, detect.Neutral},        // a quotation
		{"at wrong (cart.go:3)\nhm", done, detect.Neutral},  // a stack frame
		{"continue", done, detect.Neutral},
		{
			"Sure, my name is Ann Lee and my zip code is 12345.",
			"Could you please tell me your name and zip code?", detect.Neutral,
		},
		{
			"ok, now read the README in full and tell me which module does the payments", done,
			detect.Neutral,
		},
		{"how do I install it?", done, detect.Neutral},
		{"Don't worry about it", done, detect.Neutral},
		{"No problem", done, detect.Neutral},
		{"Actually, I changed my mind about the colour.", done, detect.Neutral},
		{"add a test for the error case", done, detect.Neutral},
	} {
		if got := detect.ClassifyTurn(tc.message, tc.message, tc.previous); got.Feeling != tc.want || got.Interrupt {
			t.Errorf("ClassifyTurn(%q) after %q = %+v, want Feeling = %s, Interrupt = false", tc.message, tc.previous, got, tc.want)
		}
	}
}

// A long message is a task or a document. Only its first words can express an opinion.
func TestLongTurnsAreJudgedByTheirFirstWords(t *testing.T) {
	rules := strings.Repeat("Each invoice has a number, a date and a list of items. ", 8) +
		"Totals should be sums of the items rather than typed numbers. Stop if the import fails with an error."
	for message, want := range map[string]detect.Feeling{
		rules:                        detect.Neutral,
		"That's wrong. " + rules:     detect.Rejection,
		"Great! Next: " + rules:      detect.Approval,
		"You forgot dates. " + rules: detect.Correction,
	} {
		if got := detect.ClassifyTurn(message, message, "Done. The cart now sums the items."); got.Feeling != want {
			t.Errorf("ClassifyTurn(%q) = %+v, want Feeling = %s", message, got, want)
		}
	}
}

// A synthetic turn is a user message that the harness wrote.
func TestClassifyTurnReadsSyntheticTurns(t *testing.T) {
	for _, text := range []string{"<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>", "[Request interrupted by user]", "[Request interrupted by user for tool use]"} {
		if got := detect.ClassifyTurn(text, "", "x"); got.Feeling != detect.Rejection || !got.Interrupt {
			t.Errorf("ClassifyTurn(%q) = %+v, want Feeling = %q, Interrupt = true", text, got, detect.Rejection)
		}
	}
	for _, text := range []string{
		"Continue from where you left off.", "What did we do so far?", "Continue if you have next steps, or stop and ask for clarification if you are unsure.",
		"The connection dropped mid-response. Resume directly where you stopped.", "Another language model started to solve this problem and produced a summary",
		"This session is being continued from a previous conversation that ran out of context. No, that's wrong.",
	} {
		rule, synthetic := detect.SyntheticRule(text)
		if got := detect.ClassifyTurn(text, text, "x"); got.Feeling != detect.Neutral || !synthetic || got.Rule != rule {
			t.Errorf("%q: SyntheticRule = %q, %v; ClassifyTurn = %+v; want a synthetic, neutral turn, and the same rule from both functions", text, rule, synthetic, got)
		}
	}
	if got := detect.ClassifyTurn("<system-reminder>no, wrong</system-reminder>", "", "x"); got.Feeling != detect.Neutral || got.Rule != "no-words" {
		t.Errorf("message without user text: got %+v, want Feeling = neutral, Rule = no-words", got)
	}
}

func TestClassifyTurnAcceptsAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, previous := rapid.String().Draw(t, "words"), rapid.String().Draw(t, "previous")
		got := detect.ClassifyTurn(text, text, previous)
		switch got.Feeling {
		case detect.Approval, detect.Correction, detect.Rejection, detect.Thanks, detect.Neutral:
		default:
			t.Fatalf("Feeling = %q, want one of the five feelings", got.Feeling)
		}
		if _, synthetic := detect.SyntheticRule(text); synthetic && got.Feeling != detect.Neutral {
			t.Fatalf("synthetic turn %q: got %+v, want Feeling = neutral", text, got)
		}
	})
}

func TestSignalsIncludeRejectionsAndFailedTests(t *testing.T) {
	msgs := chat([]testStep{bash("make", "x"), bash("npm test", "npm error code 1")})
	msgs = append(msgs, obj{"role": "user", "content": "no, that's wrong"})
	got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": msgs}), nil)
	if len(got) != 2 || got[0].Rule != "verify:test" || got[0].Tier != 2 || got[0].Feeling != detect.Rejection ||
		!got[1].Sentiment || got[1].Tier != 3 || got[1].Feeling != detect.Rejection {
		t.Errorf(`Signals = %+v, want two signals with feeling %q: the rule "verify:test" with tier 2, and the user's message with tier 3`, got, detect.Rejection)
	}
	refused := chat([]testStep{bash("rm -r build", "The user doesn't want to proceed with this tool use. The tool use was rejected.")})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": refused}), nil); len(got) != 1 || got[0].Feeling != detect.Rejection || got[0].Sentiment {
		t.Errorf("refusal by a person: Signals = %+v, want one rejection with Sentiment = false", got)
	}
	headless := chat([]testStep{bash("rm -r build", "This command requires approval")})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": headless}), nil); len(got) != 0 {
		t.Errorf("refusal without a person: Signals = %+v, want none", got)
	}
	newTask := append(chat([]testStep{bash("make", "x")}), obj{"role": "assistant", "content": "done"}, obj{"role": "user", "content": "add a test"})
	if got := new(detect.Results).Signals(parse(t, wire.Chat, obj{"messages": newTask}), nil); len(got) != 0 {
		t.Errorf("new task: Signals = %+v, want none", got)
	}
}

// Each line in testdata/turns.tsv holds a feeling, the previous answer and a user turn.
func TestHarnessAndCustomerTurnsAreClassified(t *testing.T) {
	for line := range strings.Lines(turnCases) {
		cols := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(cols) != 3 {
			continue
		}
		text := strings.ReplaceAll(cols[2], `\n`, "\n")
		if got := detect.ClassifyTurn(text, text, cols[1]); string(got.Feeling) != cols[0] {
			t.Errorf("%q after %q: got feeling %s (rule %q), want %s", text, cols[1], got.Feeling, got.Rule, cols[0])
		}
	}
}

// After an offer, words such as "instead of" express a choice. After finished work, the same words are a correction.
func TestChoiceIsNeutralOnlyAfterAnOffer(t *testing.T) {
	t.Parallel()
	const offer, done = "We have the following options: a lamp and a desk. Which one do you want?", "I moved the helper."
	for _, tc := range []struct {
		text, previous string
		want           detect.Feeling
	}{
		{"the lamp instead of the desk", offer, detect.Neutral},
		{"no, the lamp is fine", offer, detect.Neutral},
		{"neither, show me a chair", offer, detect.Neutral},
		{"no, that is wrong, I asked for a chair", offer, detect.Rejection},
		{"no, you took the wrong lamp, take that instead", offer, detect.Rejection},
		{"use the lamp instead of the desk", done, detect.Correction},
	} {
		if got := detect.ClassifyTurn(tc.text, tc.text, tc.previous).Feeling; got != tc.want {
			t.Errorf("ClassifyTurn(%q) after %q: got feeling %v, want %v", tc.text, tc.previous, got, tc.want)
		}
	}
}

func TestDecliningMoreHelpIsThanks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"No further questions. Thank you.", "Nope. Have a great day, thanks!"} {
		if got := detect.ClassifyTurn(text, text, "It is done. Anything else?").Feeling; got != detect.Thanks {
			t.Errorf("ClassifyTurn(%q) after \"Anything else?\": got feeling %v, want thanks", text, got)
		}
	}
}
