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
	Session string   `json:"session"`
	Run     string   `json:"run,omitempty"`
	Callers []string `json:"callers,omitempty"` // digests of the credentials in accepted requests (sample.Exchange)
}

// independentOf reports whether two sessions have different runs and different credentials. It compares credentials,
// because a caller can choose names, words and times, but cannot use another caller's credential.
func (r Ref) independentOf(o Ref) bool {
	if r.Session == o.Session || r.Run != "" && r.Run == o.Run || len(r.Callers) == 0 || len(o.Callers) == 0 {
		return false
	}
	return countCommon(r.Callers, o.Callers) == 0
}

// Session is one conversation as the distiller reads it.
type Session struct {
	ID       string
	Content  sample.Session
	Injected []string         // slugs of the injected lessons
	arms     []trial.Arm      // arms for the lessons in Injected, in the same order
	Near     []*lesson.Lesson // similar lessons, for a judge
}

func (s *Session) runName() string {
	if x := s.Content.Exchanges; len(x) > 0 {
		return x[0].Run
	}
	return ""
}

// maxCallers is the maximum number of callers in a session's Ref.
const maxCallers = 4

// callers returns digests of the callers' credentials. It reads only requests that the upstream accepted, because
// anyone can send an invented credential.
func (s *Session) callers() (out []string) {
	for i := range s.Content.Exchanges {
		x := &s.Content.Exchanges[i]
		if accepted := x.Status >= 200 && x.Status < 300; accepted && x.Caller != "" && len(out) < maxCallers {
			out = appendMissing(out, x.Caller)
		}
	}
	return out
}

// hash returns a hash of the content. It changes with a new turn or rating.
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

// step is a tool call with its result.
type step struct {
	tool      string
	args      arguments
	text      string
	judgement detect.Judgement
	shell     *shellCall // nil for other tools
}

func (s *step) failed() bool              { return s.judgement.Outcome == detect.Error }
func (s *step) errorKinds() []detect.Kind { return detect.Kinds(s.text, s.judgement) }
func (s *step) succeeded() bool           { return s.judgement.Outcome == detect.OK }

type userMessage struct {
	words       string
	opinion     detect.Opinion
	stepsBefore int // steps before the message
}

type parsedSession struct {
	ref      Ref
	steps    []step
	messages []userMessage
	orgWords bool // lessons may use the organisation's words
}

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
					previous = "…" // the agent wrote no text, but the user may mean its calls
				}
				r.messages = append(r.messages, userMessage{words: words, opinion: detect.ClassifyTurn(e.Text, words, previous), stepsBefore: len(r.steps)})
			}
		}
	}
	return r
}

// withoutBlocks removes inserted lessons and warnings from a text in an imported transcript. Recorded sessions contain
// none.
func withoutBlocks(text string) string {
	for _, ends := range [][2]string{
		{"Lessons from past experience:\n", "\nEnd of lessons."},
		{"[KNOWN PITFALLS", "[END KNOWN PITFALLS]"},
		{"[LOOP DETECTED]", "[END LOOP DETECTED]"},
		{"[/lesson ", "[END LESSON]"},
	} {
		for before, rest, found := strings.Cut(text, ends[0]); found; before, rest, found = strings.Cut(text, ends[0]) {
			text = before // a block without an end extends to the end of the text
			if _, after, whole := strings.Cut(rest, ends[1]); whole {
				text = strings.TrimSpace(before + after)
			}
		}
	}
	return text
}
