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

// Truth is a lesson's true effect and trigger.
type Truth struct {
	Slug             string
	Effect           float64 // on the probability of success; 0.05 = +5 points
	phrase           string  // text in a matching ticket
	share            float64 // share of average tickets to which the lesson applies
	difficultyWeight float64 // > 0: applies to hard tickets more often
}

// truths returns the true effects. Several lessons are confounded: the most helpful lesson applies to hard tickets more
// often, and the most harmful one to easy tickets.
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

// World holds the true effects and the random tickets for one simulation.
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

// Pinned is the slug of the lesson that prevents an error: without a pinned version, installing a dependency fails.
const Pinned = "pin-the-dependency"

// Probabilities that an agent installs the dependency without a version.
const unpinnedWith, unpinnedWithout = 0.2, 0.9

const (
	pinnedCommand   = `{"command":"pip install acme-client==2.3"}`
	unpinnedCommand = `{"command":"pip install acme-client"}`
	installOutput   = "Successfully installed acme-client-2.3"
	installError    = "Exit code 1\nERROR: No matching distribution found for acme-client"
)

func installResult(c *call) string {
	if c.Function.Arguments == unpinnedCommand {
		return installError
	}
	return installOutput
}

// installCommand returns the arguments for the call that installs a dependency; ok is false for a ticket without one.
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

// draw returns a number from 0 to 1 that depends only on the seed, the purpose and the ticket, so a lesson cannot
// change the ticket's luck.
func (w *World) draw(purpose string, t ticket) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %d", w.seed, purpose, t.n)
	return rand.New(rand.NewPCG(h.Sum64(), 1)).Float64() //nolint:gosec // a simulation, reproducible by its seed
}

// ticket is one agent's task.
type ticket struct {
	n          int
	difficulty float64
	lessons    []int // indices in World.Truths of the lessons that apply
	turns      int
	agent      string
	model      string
}

// A ticket's agent and model are random. A lesson has the same effect with every agent and model.
const (
	coder, reviewer        = "ticket-coder/1.4", "ticket-reviewer/2.0"
	largeModel, smallModel = "demo-large", "demo-small"
	modelGap               = 0.08 // difference in the probability of success
)

// Prices is the demo server's value for the configuration key "prices".
const Prices = "[{model: " + largeModel + ", input: 3, cached: 0.3, output: 15}, {model: " + smallModel + ", input: 0.5, cached: 0.05, output: 2}]"

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
		logOdds := math.Log(l.share/(1-l.share)) + l.difficultyWeight*t.difficulty - .35*l.difficultyWeight*l.difficultyWeight
		if r.Float64() < 1/(1+math.Exp(-logOdds)) {
			t.lessons = append(t.lessons, i)
		}
	}
	return t
}

func (w *World) ticketText(t ticket) string {
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

func ticketName(n int) string { return fmt.Sprintf("TICKET-%06d", n) }

// successChance returns the probability that an agent with the lessons succeeds.
func (w *World) successChance(t ticket, lessons []int) float64 {
	p := .5 - .17*t.difficulty + modelGap/2
	if t.model == smallModel {
		p -= modelGap
	}
	for _, l := range lessons {
		p += w.Truths[l].Effect
	}
	return min(max(p, .03), .97)
}

func (w *World) succeeds(t ticket, lessons []int) bool {
	return w.draw("outcome", t) < w.successChance(t, lessons)
}

// Effect returns a lesson's true effect.
func (w *World) Effect(slug string) (float64, bool) {
	i, ok := w.bySlug[slug]
	if !ok {
		return 0, false
	}
	return w.Truths[i].Effect, true
}
