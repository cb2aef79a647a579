package detect

import "testing"

func TestIsPrompt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"Password:": true, "(deploy@stage02) Password:": true, "Ok to proceed? (y)": true, "Overwrite a.txt? [y/N]": true, "Continue? (yes/no):": true,
		"Are you sure (yes/no/[fingerprint])?": true, "Do you want to continue?": true, "? Delete the branch (Y/n) ›": true, "Enter passphrase for key '/k':": true,
		"[sudo] password for bob:": true, "Press any key to continue . . .": true, "Press ENTER to continue...": true, "--More--": true, ">": true, "dquote>": true,
		"": false, ">>>": false, "bob@host:~$": false, "50%": false, "password: hunter2": false, "Press enter on the first row.": false, "<p>": false,
	} {
		if got := isPrompt(line); got != want {
			t.Errorf("isPrompt(%q) = %t, want %t", line, got, want)
		}
	}
}

func TestWithoutScores(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[1] score=0.83 a": "[1] score a", `{"score": -0.5, "n": 2}`: `{"score, "n": 2}`, "score: 2": "score: 2", "the scores rise": "the scores rise",
		"score 3.": "score 3.", "ends in score": "ends in score",
	} {
		if got := withoutScores(text); got != want {
			t.Errorf("withoutScores(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestIsID(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{
		"6514201555": true, "kv863692": true, "job_rmu7iigqtj5uhbbhlhpsr9x2c": true, "1:21": true, "21": false,
		"customer_2023_total": false, "obj/x86_64/foo.o": false, "e1101": false, "description": false,
	} {
		if got := isID(word); got != want {
			t.Errorf("isID(%q) = %t, want %t", word, got, want)
		}
	}
}

func TestSchedulerHeaderIsAPersonsTurn(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]bool{"[wake-up 2/6 at 08:10]": false, "[timer] check the queue": false, "[Tool result] 4.1": true} {
		if _, synthetic := SyntheticRule(words); synthetic != want {
			t.Errorf("SyntheticRule(%q): synthetic = %t, want %t", words, synthetic, want)
		}
	}
}
