package inject

import (
	"precept/bandit"
	"precept/inject/lesson"
)

// Style is the wording of a block.
type Style string

// The styles.
const (
	Advice   Style = "advice"   // between "Lessons from past experience:" and "End of lessons."
	Pitfalls Style = "pitfalls" // between "[KNOWN PITFALLS ...]" and "[END KNOWN PITFALLS]"
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
	BudgetBytes int            // maximum bytes of one block; a session gets at most twice as many. 0 means 2 KiB.
	NoLoops     bool           // do not look for loops and insert no loop warnings
	NoCautions  bool           // measured counts never turn a lesson into a caution
	Writ        bool           // inform agents about /lesson commands
	Tags        *lesson.Tagger // derives tags from the text of a turn; nil derives none
	Like        bool           // insert matches by likeness of the lessons that permit such matches; otherwise such a match is a suggestion only
	System      []string       // name patterns of the agents that put the task into the system prompt; a new session's system prompt is searched
	Bandit      bandit.Config
}

// defaultBudget is the budget of a block in bytes.
const defaultBudget = 2 << 10
