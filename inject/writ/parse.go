package writ

import (
	"strings"
	"unicode/utf8"

	"precept/inject/lesson"
)

// Verb is what a command does.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	List   Verb = "list"
	Search Verb = "search"
	Delete Verb = "delete"
)

// Limits for an agent's commands.
const (
	MaxSignature = 200  // characters in a lesson's signature
	MaxText      = 4096 // characters in a lesson's text
	MaxCommands  = 8    // per reply
)

// Command is one command in a reply.
type Command struct {
	Verb      Verb
	Signature string // for Create: when the lesson applies
	Text      string // for Create
	Words     string // for Search
	ID        string // for Delete
	Problem   string // why the command cannot be carried out, with the remedy; empty if valid
}

const (
	commandMark = "/lesson"
	textEnd     = "/endlesson" // ends a text with several lines
)

// Parse returns at most MaxCommands commands from a reply. If there are more, the last command returned has a Problem.
// Parse ignores the last line of a truncated reply, because that line can be incomplete.
func Parse(reply string, truncated bool) []Command {
	if truncated {
		reply = reply[:strings.LastIndexByte(reply, '\n')+1]
	}
	var out []Command
	r := reader{rest: withoutAnswers(strings.ReplaceAll(reply, "\r\n", "\n"))}
	for line, ok := r.line(); ok; line, ok = r.line() {
		text, isCommand := cutCommand(line)
		if !isCommand {
			continue
		}
		if len(out) == MaxCommands {
			out[MaxCommands-1] = Command{Verb: Create, Problem: "a reply may hold 8 commands; this command and all later commands were not executed"}
			break
		}
		out = append(out, r.read(text))
	}
	return out
}

// withoutAnswers removes precept's own text. Otherwise, an agent that repeats the advertisement would seem to give
// commands.
func withoutAnswers(reply string) string {
	var out strings.Builder
	for {
		before, answer, found := strings.Cut(reply, answerStart)
		_, after, hasEnd := strings.Cut(answer, answerEnd)
		if !found || !hasEnd {
			out.WriteString(reply)
			return out.String()
		}
		out.WriteString(before + "\n")
		reply = after
	}
}

// reader reads a reply line by line, and tracks code fences.
type reader struct {
	rest  string
	fence string // the marker of the open code fence, or empty
}

func (r *reader) line() (string, bool) {
	if r.rest == "" {
		return "", false
	}
	var line string
	line, r.rest, _ = strings.Cut(r.rest, "\n")
	open := r.fence
	r.fence = lesson.OpenFence(open, line)
	if open != "" {
		return "", true // fenced
	}
	return line, true
}

// cutCommand returns the text after commandMark. If more than three blanks precede commandMark, the line is program
// text and ok is false.
func cutCommand(line string) (rest string, ok bool) {
	text := strings.TrimLeft(line, " ")
	rest, ok = strings.CutPrefix(text, commandMark)
	if !ok || len(line)-len(text) > 3 || rest == "" || (rest[0] != ' ' && rest[0] != '\t') {
		return "", false
	}
	rest = strings.TrimSpace(rest)
	return rest, rest != ""
}

// read parses a command. If the command's text has several lines, read consumes them.
func (r *reader) read(line string) Command {
	signature, text, isOneLine := strings.Cut(line, ": ")
	verb, words, _ := strings.Cut(line, " ")
	words = strings.TrimSpace(words)
	switch {
	case isOneLine:
		return createCommand(signature, text)
	case verb == string(List) && words == "":
		return Command{Verb: List}
	case verb == string(Search) && words != "":
		return Command{Verb: Search, Words: clip(words)}
	case verb == string(Delete) && words != "" && !strings.Contains(words, " "):
		return Command{Verb: Delete, ID: clip(strings.TrimPrefix(words, "#"))}
	}
	text, ok := r.lessonText()
	if !ok {
		return Command{Verb: Create, Problem: "end a multi-line lesson with the line /endlesson; write a one-line lesson as /lesson SIGNATURE: TEXT"}
	}
	return createCommand(strings.TrimSuffix(line, ":"), text)
}

// lessonText returns the lines up to /endlesson. Without /endlesson, the lines are prose, and ok is false.
func (r *reader) lessonText() (text string, ok bool) {
	var lines []string
	for rest := r.rest; rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if strings.TrimSpace(line) == textEnd {
			r.rest = rest
			return strings.Join(lines, "\n"), true
		}
		lines = append(lines, line)
	}
	return "", false
}

func createCommand(signature, text string) Command {
	c := Command{Verb: Create, Signature: strings.TrimSpace(signature), Text: strings.TrimSpace(text)}
	switch {
	case c.Signature == "" || c.Text == "":
		c.Problem = "a lesson has a signature and a text; write /lesson SIGNATURE: TEXT"
	case utf8.RuneCountInString(c.Signature) > MaxSignature:
		c.Problem = "the signature has more than 200 characters; write a shorter one"
	case utf8.RuneCountInString(c.Text) > MaxText:
		c.Problem = "the text has more than 4,096 characters; write a shorter one"
	case !utf8.ValidString(c.Signature) || !utf8.ValidString(c.Text):
		c.Problem = "the lesson is not a valid text; write it again"
	}
	if c.Problem != "" {
		c.Signature, c.Text = "", ""
	}
	return c
}

func clip(s string) string {
	if utf8.RuneCountInString(s) <= MaxSignature {
		return s
	}
	return string([]rune(s)[:MaxSignature])
}
