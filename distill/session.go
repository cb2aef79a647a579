package distill

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"precept/bandit/trial"
	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// Ref refers to a session that supports a lesson.
type Ref struct {
	Session string   `json:"session"`           // id of the session
	Run     string   `json:"run,omitempty"`     // run of the session
	Callers []string `json:"callers,omitempty"` // digests of the credentials of the session's accepted requests; see sample.Exchange
}

// independentOf reports whether two sessions support a lesson independently. The sessions must not be part of the same
// run, and must have no credential in common. A caller can choose names, words and times, but does not have the
// credential of another caller.
func (r Ref) independentOf(o Ref) bool {
	if r.Session == o.Session || r.Run != "" && r.Run == o.Run || len(r.Callers) == 0 || len(o.Callers) == 0 {
		return false
	}
	return countCommon(r.Callers, o.Callers) == 0
}

// Session is one conversation in the form that the distiller reads.
type Session struct {
	ID       string
	Content  sample.Session
	Injected []string         // slugs of the lessons that were injected
	arms     []trial.Arm      // arms of the lessons in Injected, in the same order
	Near     []*lesson.Lesson // existing lessons about similar words and errors, for a judge
}

// runName returns the name of the session's run.
func (s *Session) runName() string {
	if x := s.Content.Exchanges; len(x) > 0 {
		return x[0].Run
	}
	return ""
}

// maxCallers is the maximum number of callers in the Ref of one session.
const maxCallers = 4

// callers returns the callers of the session's requests that the upstream accepted. Other requests do not count,
// because anyone can send a request with an invented credential.
func (s *Session) callers() (out []string) {
	for i := range s.Content.Exchanges {
		x := &s.Content.Exchanges[i]
		if accepted := x.Status >= 200 && x.Status < 300; accepted && x.Caller != "" && len(out) < maxCallers {
			out = appendMissing(out, x.Caller)
		}
	}
	return out
}

// hash returns a hash of the content of a session. A new turn or a new rating changes the hash.
func (s *Session) hash() string {
	h := sha256.New()
	for i := range s.Content.Exchanges {
		x := &s.Content.Exchanges[i]
		_, _ = fmt.Fprintf(h, "%s %d %s %d\n", x.ID, x.Turn, x.Outcome, len(x.New))
	}
	for i := range s.Content.Ratings {
		r := &s.Content.Ratings[i]
		_, _ = fmt.Fprintf(h, "%s %s %s %v\n", r.At, r.Source, r.Type, r.Score)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// step is a tool call with its result and the judgement of the result.
type step struct {
	tool      string
	args      arguments
	text      string
	judgement detect.Judgement
	shell     *shellCall // nil means the tool runs no command
}

func (s *step) failed() bool         { return s.judgement.Outcome == detect.Error }
func (s *step) kinds() []detect.Kind { return detect.Kinds(s.text, s.judgement) }
func (s *step) succeeded() bool      { return s.judgement.Outcome == detect.OK }

// userMessage is a message of the user.
type userMessage struct {
	words   string // the user's own words
	opinion detect.Opinion
	before  int // number of the session's steps before the message
}

// parsedSession holds the steps and messages of a session, which the rules read.
type parsedSession struct {
	ref      Ref
	steps    []step
	messages []userMessage
	orgWords bool // a lesson may use the words of the organisation
}

// parseSession returns the steps and messages of a session. Calls without a result are omitted.
func parseSession(s *Session, orgWords bool) *parsedSession {
	r := &parsedSession{orgWords: orgWords, ref: Ref{Session: s.ID, Run: s.runName(), Callers: s.callers()}}
	previous := ""
	for _, e := range s.Content.Events() {
		switch e.Role {
		case sample.EventCall:
			if !e.Answered {
				continue
			}
			text := withoutBlocks(e.Text)
			st := step{tool: e.Call.Name, args: parseArguments(e.Call.Args), text: text, judgement: detect.Classify(e.Call.Name, e.Call.Args, text, e.IsError)}
			st.shell = parseShellCall(&st, orgWords)
			if hasKnownFailure(&st) {
				st.judgement = detect.Judgement{Outcome: detect.Error}
			}
			r.steps = append(r.steps, st)
		case sample.EventAssistant:
			previous = e.Text
		case sample.EventUser:
			words := withoutBlocks(e.Text)
			if _, synthetic := detect.SyntheticRule(words); !synthetic {
				if previous == "" && len(r.steps) > 0 {
					previous = "…" // in place of text: the user's words refer to the calls of an agent that writes no text
				}
				r.messages = append(r.messages, userMessage{words: words, opinion: detect.ClassifyTurn(e.Text, words, previous), before: len(r.steps)})
			}
		}
	}
	return r
}

// withoutBlocks removes the blocks that precept inserted into a text. The proxy stores no such blocks, but an imported
// transcript may contain some.
func withoutBlocks(text string) string {
	for _, ends := range [][2]string{
		{"Lessons from past experience:\n", "\nEnd of lessons."},
		{"[KNOWN PITFALLS", "[END KNOWN PITFALLS]"},
		{"[LOOP DETECTED]", "[END LOOP DETECTED]"},
		{"[/lesson ", "[END LESSON]"},
	} {
		for before, rest, found := strings.Cut(text, ends[0]); found; before, rest, found = strings.Cut(text, ends[0]) {
			text = before // if the end of a block is missing, the block is the rest of the text
			if _, after, whole := strings.Cut(rest, ends[1]); whole {
				text = strings.TrimSpace(before + after)
			}
		}
	}
	return text
}
