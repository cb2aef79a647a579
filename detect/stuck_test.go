package detect_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"precept/internal/wire"
)

// An agent is stuck although its calls differ: five failures with one message, six equal screens, or six answers
// without a new result are a loop. Another result, a change, a wait and a turn of a person end the count.
func TestDifferentCallsWithoutProgressAreALoop(t *testing.T) {
	t.Parallel()
	each := func(tool, key string, result func(value string) string, values ...string) (story []storyStep) {
		for _, v := range values {
			story = append(story, call(tool, jsonArgs(key, v), result(v)))
		}
		return story
	}
	always := func(text string) func(string) string { return func(string) string { return text } }
	missing := func(path string) string { return "Error: ENOENT: no such file or directory, open '" + path + "'" }
	guess := each("read_text_file", "path", missing, "/d/a.csv", "/d/b.csv", "/d/c/a.csv", "/d/a.tsv", "/d/old/a.csv")
	paths := []string{"/q/a.csv", "/q/b.csv", "/q/c.csv", "/q/d.csv"}
	busy := each("get_quote", "symbol", always("Error: 503 Service Unavailable"), "A", "B", "C", "D", "E", "F")
	keys := each("send_keys", "keys", always("diff of a.c\n-  int n;\n+  long n;\n(END)"), "make", "ls", "x", "make test", "y", "z")
	lever := each("game", "command", always("It is too heavy."), "pull lever", "lift lever", "move lever", "shift lever", "raise lever", "heave lever")
	seats := each("check_seat", "seat", always("taken"), "1A", "1B", "1C", "1D", "1E", "1F")
	sent := each("send_mail", "to", always("Sent."), "a@x", "b@x", "c@x", "d@x", "e@x", "f@x")
	compile := func(n int, message string) (story []storyStep) {
		for i := range n {
			story = append(story,
				call("edit", fmt.Sprintf(`{"path":"a.c","old_str":"x%d","new_str":"y"}`, i), "The file a.c has been updated."),
				bash("cc a.c", strings.ReplaceAll(message, "LINE", strconv.Itoa(i))+"\n\nCommand exited with code 1"))
		}
		return story
	}
	kitchen, hall := call("game", `{"command":"north"}`, "Kitchen\nA white kitchen."), call("game", `{"command":"south"}`, "Hall\nA dusty hall.")
	goNorth, goSouth := call("game", `{"command":"go north"}`, "Kitchen\nA white kitchen."), call("game", `{"command":"go south"}`, "Hall\nA dusty hall.")
	walk := []storyStep{kitchen, hall, goNorth, goSouth, kitchen, hall, goNorth, goSouth}
	insert := func(story []storyStep, steps ...storyStep) []storyStep {
		out := append([]storyStep{}, story[:len(story)-1]...)
		return append(append(out, steps...), story[len(story)-1])
	}
	edited := call("edit", `{"path":"b.c","old_str":"a","new_str":"b"}`, "The file b.c has been updated.")
	for name, tt := range map[string]struct {
		story []storyStep
		loop  bool
	}{
		"guessed paths":                {guess, true},
		"four guessed paths":           {guess[:4], false},
		"guesses with a listing":       {insert(guess, call("list", `{}`, "/d")), true},
		"guesses with another tool":    {insert(guess, edited), true},
		"guesses with a hit":           {insert(guess, call("read_text_file", `{"path":"/d/x"}`, "1,2")), false},
		"guesses with another failure": {insert(guess, call("read_text_file", `{"path":"/d"}`, "Error: EISDIR: illegal operation on a directory, read")), false},
		"guesses with a user turn":     {insert(guess, userStep("Look in the other folder, please.")), false},
		"guesses in one answer":        {append(append([]storyStep{}, guess[:3]...), parallel(guess[3]), parallel(guess[4])), false},
		"two tools":                    {append(each("open_file", "path", missing, paths...), guess[:4]...), false},
		"a transient failure":          {busy, true},
		"five transient failures":      {busy[:5], false},
		"a transient failure, a wait":  {insert(busy, bash("sleep 60", "")), false},
		"the same error after edits":   {compile(5, "a.c:7: error: unknown type name 'size_tt'"), true},
		"new errors after edits":       {compile(6, "a.c:LINE: error: expected ';'"), false},
		"a screen that stays":          {keys, true},
		"five screens":                 {keys[:5], false},
		"a screen after a wait":        {insert(keys, bash("sleep 5", "")), false},
		"a screen after an edit":       {insert(keys, edited), false},
		"another screen":               {insert(keys, call("send_keys", `{"keys":"q"}`, "$ ")), false},
		"a game":                       {lever, true},
		"checks of objects":            {seats, false},
		"confirmations":                {sent, false},
		"a walk to and fro":            {walk, true},
		"a shorter walk":               {walk[:7], false},
		"a walk with a new room":       {insert(walk, call("game", `{"command":"west"}`, "Study\nA key lies here.")), false},
		"a walk with an edit":          {insert(walk, edited), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := loopsIn(t, tt.story...); n > 0 != tt.loop {
				t.Errorf("got %d loops, want any: %v", n, tt.loop)
			}
			if got := replay(t, wire.Chat, tt.story); len(got) > 0 != tt.loop {
				t.Errorf("with growing requests: got loops at the steps %v, want any: %v", got, tt.loop)
			}
			if slices.ContainsFunc(tt.story, func(s storyStep) bool { return s.also }) {
				return // replayFromCheckpoints has one call in each request
			}
			if got := replayFromCheckpoints(t, tt.story); len(got) > 0 != tt.loop {
				t.Errorf("without the history: got loops at the steps %v, want any: %v", got, tt.loop)
			}
		})
	}
}
