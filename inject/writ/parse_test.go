package writ_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"precept/inject/writ"
)

func TestParseReadsCommands(t *testing.T) {
	create := func(signature, text string) writ.Command {
		return writ.Command{Verb: writ.Create, Signature: signature, Text: text}
	}
	for name, tc := range map[string]struct {
		reply string
		want  []writ.Command
	}{
		"one line":                          {"Done.\n/lesson pagination: Read the page id again.\nBye.", []writ.Command{create("pagination", "Read the page id again.")}},
		"several colons":                    {"/lesson http://x: see https://y: z", []writ.Command{create("http://x", "see https://y: z")}},
		"block":                             {"/lesson when a page jumps\nRead the id.\n\nThen click.\n/endlesson\nend", []writ.Command{create("when a page jumps", "Read the id.\n\nThen click.")}},
		"block with a colon":                {"/lesson when a page jumps:\nRead the id.\n/endlesson", []writ.Command{create("when a page jumps", "Read the id.")}},
		"fence in a block":                  {"/lesson x\n```\n/lesson no: no\n```\n/endlesson\n/lesson list", []writ.Command{create("x", "```\n/lesson no: no\n```"), {Verb: writ.List}}},
		"carriage returns":                  {"/lesson a: b\r\n/lesson list\r\n", []writ.Command{create("a", "b"), {Verb: writ.List}}},
		"list":                              {"/lesson list", []writ.Command{{Verb: writ.List}}},
		"search":                            {"/lesson search page ids", []writ.Command{{Verb: writ.Search, Words: "page ids"}}},
		"delete":                            {"/lesson delete #page-ids-1a2b", []writ.Command{{Verb: writ.Delete, ID: "page-ids-1a2b"}}},
		"signature that begins with a verb": {"/lesson delete the cache first: it is stale", []writ.Command{create("delete the cache first", "it is stale")}},
		"two leading blanks":                {"  /lesson list", []writ.Command{{Verb: writ.List}}},
		"fenced":                            {"```\n/lesson a: b\n```", nil},
		"fenced, tildes":                    {"~~~~ text\n/lesson a: b\n~~~\n/lesson c: d\n~~~~", nil},
		"unclosed fence":                    {"```sh\n/lesson a: b", nil},
		"quoted":                            {"> /lesson a: b", nil},
		"inline code":                       {"Write `/lesson a: b` to keep it.", nil},
		"in a sentence":                     {"You may use /lesson a: b", nil},
		"indented code":                     {"    /lesson a: b\n\t/lesson a: b", nil},
		"other commands":                    {"/lessons list\n/lesson\n/lesson ", nil},
		"search for more than 200 characters": {
			"/lesson search " + strings.Repeat("ö", 200) + "\n/lesson search " + strings.Repeat("ö", 201),
			[]writ.Command{{Verb: writ.Search, Words: strings.Repeat("ö", 200)}, {Verb: writ.Search, Words: strings.Repeat("ö", 200)}},
		},
		"longer closing fence":                         {"```\n/lesson a: b\n`````\n/lesson list", []writ.Command{{Verb: writ.List}}},
		"indented closing fence":                       {"```\n    ```\n/lesson a: b", nil},
		"backticks that are not a fence":               {"``` and ``` in a line\n``\n    ```\n/lesson list", []writ.Command{{Verb: writ.List}}},
		"empty reply":                                  {"", nil},
		"three leading blanks":                         {"   /lesson list", []writ.Command{{Verb: writ.List}}},
		"tab after /lesson":                            {"/lesson\tlist", []writ.Command{{Verb: writ.List}}},
		"blanks before the search words":               {"/lesson search   page ids", []writ.Command{{Verb: writ.Search, Words: "page ids"}}},
		"command in a block":                           {"/lesson x\n/lesson list\n/endlesson", []writ.Command{create("x", "/lesson list")}},
		"command after a fence":                        {"```\n/lesson a: b\n```\n/lesson list", []writ.Command{{Verb: writ.List}}},
		"fence after three blanks":                     {"   ```\n/lesson a: b\n   ```\n/lesson list", []writ.Command{{Verb: writ.List}}},
		"closing fence after a tab":                    {"```\n\t```\n/lesson a: b", nil},
		"shorter closing fence":                        {"````\n```\n/lesson a: b", nil},
		"different closing fence":                      {"```\n~~~\n/lesson a: b", nil},
		"tilde fence with an info string in backticks": {"~~~ `sh`\n/lesson a: b", nil},
	} {
		if got := writ.Parse(tc.reply, false); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: Parse = %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestParseReportsInvalidCommands(t *testing.T) {
	for name, reply := range map[string]string{
		"no /endlesson":                  "/lesson when a page jumps\nRead the id.",
		"no text":                        "/lesson x\n\n/endlesson",
		"long signature":                 "/lesson " + strings.Repeat("ä", 201) + ": b",
		"long text":                      "/lesson a: " + strings.Repeat("ä", 4097),
		"invalid UTF-8 in the text":      "/lesson a: \xff",
		"invalid UTF-8 in the signature": "/lesson \xff: b",
		"search without words":           "/lesson search",
		"delete with two ids":            "/lesson delete one two",
		"delete without an id":           "/lesson delete",
		"list with words":                "/lesson list all",
		"no signature":                   "/lesson :\ntext\n/endlesson",
	} {
		if got := writ.Parse(reply, false); len(got) != 1 || got[0].Problem == "" || got[0].Signature+got[0].Text != "" {
			t.Errorf("%s: Parse = %+v, want one command with a problem and no signature or text", name, got)
		}
	}
	if got := writ.Parse("/lesson "+strings.Repeat("ä", 200)+": "+strings.Repeat("ä", 4096), false); len(got) != 1 || got[0].Problem != "" {
		t.Errorf("lesson of the maximum size: Parse = %+v, want one command without a problem", got)
	}
	if got := writ.Parse(strings.Repeat("/lesson list\n", 20), false); len(got) != writ.MaxCommands || got[7].Problem == "" || got[6].Problem != "" {
		t.Errorf("twenty commands: Parse = %+v, want %d commands, the last with a problem", got, writ.MaxCommands)
	}
	if got := writ.Parse("/lesson when a page jumps\nRead the id.", false); !strings.Contains(got[0].Problem, "/endlesson") {
		t.Errorf("lesson without an end: problem = %q, want it to mention /endlesson", got[0].Problem)
	}
	if got := writ.Parse("/lesson is a command\nthat I like.\n/lesson list", false); len(got) != 2 || got[1].Verb != writ.List {
		t.Errorf("prose that looks like a lesson: Parse = %+v, want 2 commands, the second of them \"list\"", got)
	}
}

func TestTruncatedReplyKeepsCompleteCommands(t *testing.T) {
	if got := writ.Parse("/lesson list\n/lesson delete page-i", true); len(got) != 1 || got[0].Verb != writ.List {
		t.Errorf("reply truncated in the second command: Parse = %+v, want only list", got)
	}
	if got := writ.Parse("/lesson a: half of a sent", true); got != nil {
		t.Errorf("reply truncated in the only command: Parse = %+v, want none", got)
	}
}

func TestAnswerNamesCommandAndResult(t *testing.T) {
	if got := writ.Answer("create /fetch: use a token", true, "recorded lesson #14 — #14 [/fetch] use a token"); got !=
		"[/lesson create /fetch: use a token]\nOK: recorded lesson #14 — #14 [/fetch] use a token\n[END LESSON]\n" {
		t.Errorf("Answer = %q, want three lines: the command in brackets, OK with the result, [END LESSON]", got)
	}
	if got := writ.Answer("delete", false, "there is no lesson #a"); got != "[/lesson delete]\nERROR: there is no lesson #a\n[END LESSON]\n" {
		t.Errorf("Answer(failed command) = %q, want ERROR with the result on the second line", got)
	}
	if got := writ.Join([]string{writ.Answer("list", true, "1 lesson:", "#1 [a] b")}); got != "[/lesson list]\nOK: 1 lesson:\n#1 [a] b\n[END LESSON]\n\n" {
		t.Errorf("Join = %q, want the answer followed by a blank line", got)
	}
}

// A model can repeat an answer or the advertisement. Commands in the repeated text are not executed. Commands in the
// text around it are executed, even after an incomplete answer.
func TestRepeatedAnswerExecutesNoCommand(t *testing.T) {
	list := []writ.Command{{Verb: writ.List}}
	for name, tc := range map[string]struct {
		reply string
		want  []writ.Command
	}{
		"advertisement":                          {"You told me:\n" + writ.Advertisement, nil},
		"advertisement with CRLF":                {strings.ReplaceAll(writ.Advertisement, "\n", "\r\n"), nil},
		"advertisement and a command":            {writ.Advertisement + "/lesson list", list},
		"answer after other text, and a command": {"So: " + writ.Answer("list", true, "1 lesson", "/lesson delete a") + "/lesson list", list},
		"three advertisements and a command":     {writ.Advertisement + writ.Advertisement + "/lesson list\n" + writ.Advertisement, list},
		"answer without an end":                  {"[/lesson help] Put it on a line:\n/lesson list", list},
	} {
		if got := writ.Parse(tc.reply, false); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: Parse = %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.StringMatching(`[a-zäöü#/.-]{1,12}( [a-zäöü#/.-]{1,12}){0,4}`)
		signature, text := words.Draw(t, "signature"), words.Draw(t, "text")
		if first, _, _ := strings.Cut(signature, " "); strings.Contains("list search delete", first) {
			t.Skip("the signature begins with a verb")
		}
		prose := rapid.SampledFrom([]string{"", "Done.\n", "```\n/lesson x: y\n```\n", "> /lesson x: y\n", "a [/lesson b\n"})
		command := "/lesson " + signature + ": " + text
		if rapid.Bool().Draw(t, "block") {
			text = strings.Join(rapid.SliceOfN(words, 1, 4).Draw(t, "lines"), "\n")
			command = "/lesson " + signature + "\n" + text + "\n/endlesson"
		}
		reply := prose.Draw(t, "before") + rapid.SampledFrom([]string{"", " ", "   "}).Draw(t, "indent") + command + "\n" + prose.Draw(t, "after")
		got := writ.Parse(reply, rapid.Bool().Draw(t, "truncated"))
		if len(got) != 1 || got[0] != (writ.Command{Verb: writ.Create, Signature: signature, Text: text}) {
			t.Fatalf("Parse(%q) = %+v, want one create command with the signature and the text", reply, got)
		}
	})
}

func FuzzWrit(f *testing.F) {
	for _, s := range []string{"/lesson a: b", "/lesson a\nb\n/endlesson", "```\n/lesson a: b\n```\n/lesson list", "> /lesson x: y", "~~~\n"} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, reply string, truncated bool) {
		got := writ.Parse(reply, truncated)
		if len(got) > writ.MaxCommands {
			t.Fatalf("got %d commands, want at most %d", len(got), writ.MaxCommands)
		}
		for _, c := range got {
			if n := utf8.RuneCountInString(c.Signature); n > writ.MaxSignature || utf8.RuneCountInString(c.Text) > writ.MaxText {
				t.Fatalf("command = %+v, want at most %d signature characters and %d text characters", c, writ.MaxSignature, writ.MaxText)
			}
			if c.Problem == "" && c.Verb == writ.Create && (c.Signature == "" || c.Text == "" || strings.Contains(c.Signature, "\n")) {
				t.Fatalf("command = %+v, want a one-line signature and non-empty text", c)
			}
		}
		if fenced := "````````\n" + reply + "\n"; !strings.Contains(reply, "````````") && len(writ.Parse(fenced, truncated)) != 0 {
			t.Fatal("Parse(reply in a code fence): got a command, want none")
		}
	})
}
