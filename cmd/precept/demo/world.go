package demo

import (
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed lessons/*.md
var lessonFiles embed.FS

// Truth is the true effect of a lesson, and the lesson's trigger.
type Truth struct {
	Slug             string
	Effect           float64 // effect on the probability of success; 0.05 = +5 points
	phrase           string  // text of a ticket to which the lesson applies
	share            float64 // share of tickets of average difficulty to which the lesson applies
	difficultyWeight float64 // > 0: the lesson applies to hard tickets more often, which lowers the raw success rate
}

// truths returns the true effects of the demo's lessons. Several lessons are confounded, because the most helpful
// lesson applies to hard tickets more often, and the most harmful lesson to easy tickets. By the plain success rate,
// ask-for-a-screenshot (no effect) would seem better than pin-the-dependency (helps), and restart-the-service-first
// better than rewrite-the-module.
func truths() []Truth {
	return []Truth{
		{"reproduce-before-fixing", 0.22, "a crash that nobody could reproduce", .45, 1.2},
		{"read-the-failing-assertion", 0.14, "a failing assertion in CI", .40, 0},
		{"pin-the-dependency", 0.09, "a dependency that moved", .35, .6},
		{"restart-the-service-first", -0.16, "a service that answers slowly", .45, -1.0},
		{"rewrite-the-module", -0.10, "a module that is hard to follow", .35, 0},
		{"add-more-comments", 0, "a review that asks for documentation", .40, 0},
		{"run-the-full-suite", 0, "a flaky pipeline", .40, .8},
		{"ask-for-a-screenshot", 0, "a button in the wrong place", .30, -.8},
	}
}

// World holds the true effects and the random tickets of one simulation.
type World struct {
	Truths []Truth
	seed   uint64
	bySlug map[string]int
}

// NewWorld returns the simulation with a seed.
func NewWorld(seed uint64) *World {
	w := &World{Truths: truths(), seed: seed, bySlug: map[string]int{}}
	for i := range w.Truths {
		w.bySlug[w.Truths[i].Slug] = i
	}
	return w
}

// WriteLessons writes the demo's LESSON.md files into dir.
func (w *World) WriteLessons(dir string) error {
	names, err := fs.Glob(lessonFiles, "lessons/*.md")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("write the demo's lessons: %w", err)
	}
	for _, name := range names {
		text, err := lessonFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o600); err != nil {
			return fmt.Errorf("write the demo's lessons: %w", err)
		}
	}
	return nil
}

// Pinned is the slug of the lesson that prevents an error. An agent with a ticket about a moved dependency installs the
// dependency before the last step. Without a pinned version, the installation fails.
const Pinned = "pin-the-dependency"

// Probabilities that an agent installs the dependency without a version: with the lesson, and without the lesson.
const unpinnedWith, unpinnedWithout = 0.2, 0.9

// Arguments of the installation commands, and the results of the commands.
const (
	pinnedCommand   = `{"command":"pip install acme-client==2.3"}`
	unpinnedCommand = `{"command":"pip install acme-client"}`
	installOutput   = "Successfully installed acme-client-2.3"
	installError    = "Exit code 1\nERROR: No matching distribution found for acme-client"
)

// installResult returns the result of an installation command.
func installResult(c *call) string {
	if c.Function.Arguments == unpinnedCommand {
		return installError
	}
	return installOutput
}

// installCommand returns the arguments of the model's call that installs the dependency. lessons holds the indices of
// the lessons in the request. ok is false for a ticket without a moved dependency.
func (w *World) installCommand(t ticket, lessons []int) (arguments string, ok bool) {
	pin := w.bySlug[Pinned]
	if !slices.Contains(t.lessons, pin) {
		return "", false
	}
	chance := unpinnedWithout
	if slices.Contains(lessons, pin) {
		chance = unpinnedWith
	}
	if w.draw("install", t) < chance {
		return unpinnedCommand, true
	}
	return pinnedCommand, true
}

// draw returns a uniformly distributed number from 0 to 1. Within a simulation, the number depends only on the
// purpose and the ticket, and thus not on the lessons.
func (w *World) draw(purpose string, t ticket) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %d", w.seed, purpose, t.n)
	return rand.New(rand.NewPCG(h.Sum64(), 1)).Float64() //nolint:gosec // a simulation, reproducible by its seed
}

// ticket is the task of one session.
type ticket struct {
	n          int
	difficulty float64
	lessons    []int // indices of the lessons whose phrase is in the ticket
	turns      int
	agent      string // User-Agent of the agent that works on the ticket
	model      string
}

// Each ticket is assigned to one of two agents and one of two models at random. A lesson has the same effect with each
// agent and each model. The large model succeeds more often than the small model.
const (
	coder, reviewer        = "ticket-coder/1.4", "ticket-reviewer/2.0"
	largeModel, smallModel = "demo-large", "demo-small"
	modelGap               = 0.08 // probability of success with the large model minus the probability with the small model
)

// Prices is the value of the key prices of the demo's server.
const Prices = "[{model: " + largeModel + ", input: 3, cached: 0.3, output: 15}, {model: " + smallModel + ", input: 0.5, cached: 0.05, output: 2}]"

// ticket returns ticket n.
func (w *World) ticket(n int) ticket {
	r := rand.New(rand.NewPCG(w.seed, uint64(n))) //nolint:gosec // a simulation, reproducible by its seed
	t := ticket{n: n, difficulty: r.NormFloat64(), turns: 1 + r.IntN(3), agent: coder, model: largeModel}
	if w.draw("agent", t) < .4 {
		t.agent = reviewer
	}
	if w.draw("model", t) < .5 {
		t.model = smallModel
	}
	for i := range w.Truths {
		l := &w.Truths[i]
		odds := math.Log(l.share/(1-l.share)) + l.difficultyWeight*t.difficulty - .35*l.difficultyWeight*l.difficultyWeight
		if r.Float64() < 1/(1+math.Exp(-odds)) {
			t.lessons = append(t.lessons, i)
		}
	}
	return t
}

// text returns the user's request.
func (w *World) text(t ticket) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Please work on %s.", ticketName(t.n))
	for i, l := range t.lessons {
		if i == 0 {
			b.WriteString(" It is about ")
		} else {
			b.WriteString(", and about ")
		}
		b.WriteString(w.Truths[l].phrase)
	}
	return b.String()
}

// ticketName returns the name of ticket n. The model finds the ticket by the name in a request.
func ticketName(n int) string { return fmt.Sprintf("TICKET-%06d", n) }

// chance returns the probability of success with the given lessons in the request.
func (w *World) chance(t ticket, lessons []int) float64 {
	p := .5 - .17*t.difficulty + modelGap/2
	if t.model == smallModel {
		p -= modelGap
	}
	for _, l := range lessons {
		p += w.Truths[l].Effect
	}
	return min(max(p, .03), .97)
}

// succeeds draws the outcome of a ticket with the given lessons in the request.
func (w *World) succeeds(t ticket, lessons []int) bool {
	return w.draw("outcome", t) < w.chance(t, lessons)
}

// Effect returns the true effect of a lesson.
func (w *World) Effect(slug string) (float64, bool) {
	i, ok := w.bySlug[slug]
	if !ok {
		return 0, false
	}
	return w.Truths[i].Effect, true
}
