package inject

import (
	"precept/bandit"
	"precept/inject/lesson"
)

// Style is the wording of a block.
type Style string

// The styles.
const (
	Advice   Style = "advice"   // Lessons from past experience: ... End of lessons.
	Pitfalls Style = "pitfalls" // [KNOWN PITFALLS ...] ... [END KNOWN PITFALLS]
)

// Placement is where lessons go that the user's words triggered.
type Placement string

// The placements.
const (
	InMessage Placement = "message" // before the user's own words: the prompt cache stays
	InSystem  Placement = "system"  // at the end of the system prompt: every session then has its own, and no cache
)

// Config is what an operator sets.
type Config struct {
	Style       Style          // "" is Advice
	Placement   Placement      // "" is InMessage
	BudgetBytes int            // of one block, and half of a session's; 0 is 2 KiB
	NoLoops     bool           // no loop warnings
	Writ        bool           // agents read that they may write /lesson commands
	Tags        *lesson.Tagger // gives turns tags by their words; nil: none
	System      []string       // patterns of the agents whose tasks stand in the system prompt: it is searched as a session begins
	Bandit      bandit.Config
}

// defaultBudget is the budget of a block in bytes.
const defaultBudget = 2 << 10
