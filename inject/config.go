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

// Placement selects where lessons that the user's words triggered are inserted.
type Placement string

// The placements.
const (
	InMessage Placement = "message" // before the user's own words, so that the prompt cache stays valid
	InSystem  Placement = "system"  // at the end of the system prompt, which then differs per session and defeats the prompt cache
)

// Config is the operator's configuration.
type Config struct {
	Style       Style          // "" is Advice
	Placement   Placement      // "" is InMessage
	BudgetBytes int            // maximum bytes of one block, and half of the maximum per session; 0 means 2 KiB
	NoLoops     bool           // no loop warnings
	NoCautions  bool           // lessons never become cautions, whatever their counts
	Writ        bool           // inform agents about /lesson commands
	Tags        *lesson.Tagger // adds tags to a turn by the words of the turn; nil means no tags
	Like        bool           // lessons that ask for likeness are inserted when they match by likeness
	System      []string       // patterns of the agents whose tasks are in the system prompt, which is searched at the start of a session
	Bandit      bandit.Config
}

// defaultBudget is the budget of a block in bytes.
const defaultBudget = 2 << 10
