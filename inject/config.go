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

// Placement is the place of lessons that the user's words triggered.
type Placement string

// The placements.
const (
	InMessage Placement = "message" // before the user's own words, so that the prompt cache stays valid
	InSystem  Placement = "system"  // at the end of the system prompt, which then differs per session and defeats the prompt cache
)

// Config is the operator's configuration.
type Config struct {
	Style              Style          // "" is Advice
	Placement          Placement      // "" is InMessage
	BudgetBytes        int            // maximum bytes of one block; a session gets at most twice as many. 0 means 2 KiB.
	NoLoopDetection    bool           // turns off the detection of loops and the loop warnings
	NoCautions         bool           // measured counts never turn a lesson into a caution
	AdvertiseCommands  bool           // inform agents about /lesson commands
	Tags               *lesson.Tagger // derives tags from the text of a turn; nil derives none
	InjectByLikeness   bool           // inserts lessons that match by likeness if their file has like: true; false only suggests them
	SystemPromptAgents []string       // name patterns of the agents whose system prompt contains the task; the first request of their sessions is matched with its system prompt
	Bandit             bandit.Config
}

// defaultBudget is the budget of a block in bytes.
const defaultBudget = 2 << 10
