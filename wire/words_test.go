package wire

import (
	"strings"
	"testing"
	"time"
)

func TestOwnWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", "fix the build", "fix the build"},
		{"trimmed", "\n fix it \n", "fix it"},
		{"reminder before", "<system-reminder>\nToday is a day.\n</system-reminder>\n\nfix it", "fix it"},
		{"reminder behind", "fix it\n<system-reminder>\nBe careful.</system-reminder>", "fix it"},
		{"two reminders", "<system-reminder>a</system-reminder>fix <system-reminder>b</system-reminder>it", "fix it"},
		{"only a reminder", "<system-reminder>a</system-reminder>\n", ""},
		{"reminder that names itself", "<system-reminder>see <system-reminder> tags</system-reminder>fix it", "fix it"},
		{"unclosed reminder", "<system-reminder> what is this", "<system-reminder> what is this"},
		{"unclosed, then another", "<system-reminder> <current_datetime>x</current_datetime> what", "<system-reminder>  what"},
		{"environment", "<environment_context>\n  <cwd>/home/me</cwd>\n</environment_context>", ""},
		{"permissions", "<permissions instructions>\nx\n</permissions instructions>", ""},
		{"date in front", "<current_datetime>2026-01-02T03:04:05.678Z</current_datetime>\n\nfix it", "fix it"},
		{"notice", "fix it\n<SYSTEM_NOTICE>cut</SYSTEM_NOTICE>", "fix it"},
		{"a person's own tags", "why does <div>a</div> break? a < b > c", "why does <div>a</div> break? a < b > c"},
		{"tag that is too long", "<" + strings.Repeat("a", 100) + ">", "<" + strings.Repeat("a", 100) + ">"},
		{"interrupted", "[Request interrupted by user for tool use]", ""},
		{"interrupted item", "<turn_aborted>\nThe user stopped it.\n</turn_aborted>", ""},
		{"project instructions", "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\nrun make\n</INSTRUCTIONS>", ""},
		{"editor", "# Context from my IDE setup:\n\n## Open tabs:\n- a.go\n\n## My request for Codex:\nfix it", "fix it"},
		{"editor without a request", "# Context from my IDE setup:\n- a.go", "# Context from my IDE setup:\n- a.go"},
		{"quotes of opencode", "\"fix it\"", "fix it"},
		{"quotes with escapes", `"say \"hi\""`, `say \"hi\"`},
		{"quotes of a person", `"a" and "b"`, `"a" and "b"`},
		{"one quote", `"`, `"`},
		{"quotes and a newline", "\"fix it\n\"", "fix it"},
		{"our lessons", block + "fix it", "fix it"},
		{"our lessons alone", block, ""},
		{"our lessons twice", block + block + "fix it", "fix it"},
		{"our lessons, then quotes", block + "\"fix it\"", "fix it"},
		{"a person quotes our head", "what does Lessons from past experience:\nmean? End of lessons.", "what does Lessons from past experience:\nmean? End of lessons."},
		{"our head without an end", "Lessons from past experience:\nnone", "Lessons from past experience:\nnone"},
		{"our warning", "[LOOP DETECTED] sh\n[END LOOP DETECTED]\n\nfix it", "fix it"},
		{"our pitfalls", "[KNOWN PITFALLS for this task]\n- a\n[END KNOWN PITFALLS]\nfix it", "fix it"},
		{"our ledger", "[/lesson create x] OK: recorded lesson #14 [END LESSON]\nfix it", "fix it"},
		{"brackets of a person", "a[0] = [LOOP] // [x]", "a[0] = [LOOP] // [x]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ownWords(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A text made to be slow: openings without ends, by the hundred thousand.
func TestOwnWordsIsLinear(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, open := range []string{"<system-reminder>", "[LOOP DETECTED]", "\nLessons from past experience:\n", "<", "[/lesson "} {
			_ = ownWords(strings.Repeat(open, 200_000))
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("not done in 20 s; it takes milliseconds")
	}
}
