package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// RulesName is the name of the rules file that the agents in Rules send.
const RulesName = "CLAUDE.md"

// RulesFile is the rules file that the agents in Rules send.
//
//go:embed twelve-sections.md
var RulesFile string

// SectionTruth is a RulesFile section's true effect on the probability of success.
type SectionTruth struct {
	Section string
	Effect  float64 // 0.05 = +5 points
}

const chanceWithoutSections = .70 // probability of success without any section

// rulesFrame precedes a rules file in Claude Code's system prompt.
const rulesFrame = "You are a careful engineer.\n\nContents of /home/ada/shop/CLAUDE.md (project instructions, checked into the codebase):\n\n"

// Rules simulates the agents and the model for `precept demo --rules`. Agents send a rules file with twelve sections in
// every request. Three sections help, two harm, and seven have no effect.
type Rules struct {
	Truths          []SectionTruth
	seed            uint64
	startedSessions int
	done            atomic.Int64
	ids             atomic.Uint64
}

// NewRules returns the simulation with a seed.
func NewRules(seed uint64) *Rules {
	return &Rules{seed: seed, Truths: []SectionTruth{
		{"Voice", 0},
		{"Reproduce first", .10},
		{"History", 0},
		{"Run the checks", .09},
		{"Rewrite on sight", -.09},
		{"Commit messages", 0},
		{"Comments", 0},
		{"Read the call sites", .08},
		{"Guess the cause", -.08},
		{"Layout", 0},
		{"Naming", 0},
		{"Greetings", 0},
	}}
}

// WriteLessons makes an empty lessons directory.
func (r *Rules) WriteLessons(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the demo's lesson directory: %w", err)
	}
	return nil
}

// Done counts the finished sessions.
func (r *Rules) Done() int64 { return r.done.Load() }

// ServeHTTP responds as the model. The system prompt shows which sections precept has kept.
func (r *Rules) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	serveChat(w, req, "rules", r.ids.Add(1), func(body []byte) message {
		var asked struct {
			Messages []message `json:"messages"`
		}
		if json.Unmarshal(body, &asked) != nil || len(asked.Messages) < 2 {
			return message{Role: "assistant", Content: "What shall I do?"}
		}
		if last := asked.Messages[len(asked.Messages)-1]; last.Content != lastTurnPhrase {
			return message{Role: "assistant", Content: "Step done."}
		}
		if r.draw(asked.Messages[1].Content) < r.successChance(asked.Messages[0].Content) {
			return message{Role: "assistant", Content: "RESULT: success"}
		}
		return message{Role: "assistant", Content: "RESULT: failure"}
	})
}

func (r *Rules) successChance(prompt string) float64 {
	p := chanceWithoutSections
	for _, t := range r.Truths {
		if strings.Contains(prompt, "## "+t.Section+"\n") {
			p += t.Effect
		}
	}
	return p
}

func (r *Rules) draw(task string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(task))
	return rand.New(rand.NewPCG(h.Sum64(), r.seed)).Float64() //nolint:gosec // a simulation, reproducible by its seed
}

// RunSessions runs a number of sessions, with several agents at a time. base is precept's base URL.
func (r *Rules) RunSessions(ctx context.Context, base string, client *http.Client, agents, sessions int) error {
	fleet := &Fleet{BaseURL: base, Client: client}
	from := r.startedSessions
	r.startedSessions += sessions
	return inParallel(ctx, agents, from+1, r.startedSessions, func(ctx context.Context, n int) error { return r.runSession(ctx, fleet, n) })
}

func (r *Rules) runSession(ctx context.Context, f *Fleet, n int) error {
	list := []message{{Role: "system", Content: rulesFrame + RulesFile}, userMessage(fmt.Sprintf("Please work on %s of series %d.", ticketName(n), r.seed))}
	if n%2 == 0 {
		_, m, err := f.chat(ctx, "", "rules", list, "bash")
		if err != nil {
			return err
		}
		list = append(list, m)
	}
	id, m, err := f.chat(ctx, "", "rules", append(list, userMessage(lastTurnPhrase)), "bash")
	if err != nil {
		return err
	}
	r.done.Add(1)
	return f.rate(ctx, id, succeeded(m))
}
