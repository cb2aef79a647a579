package inject

import (
	"precept/bandit"
	"precept/inject/lesson"
)

// Style is a lesson block's wording.
type Style string

// The styles.
const (
	Advice   Style = "advice"   // between "Lessons from past experience:" and "End of lessons."
	Pitfalls Style = "pitfalls" // between "[KNOWN PITFALLS ...]" and "[END KNOWN PITFALLS]"
)

// Placement is where lessons triggered by the user's words are inserted.
type Placement string

// The placements.
const (
	InMessage Placement = "message" // before the user's own words, which keeps the prompt cache valid
	InSystem  Placement = "system"  // at the end of the system prompt, which then differs per session and defeats the cache
)

// Config is the operator's configuration.
type Config struct {
	Style              Style     // "" means Advice
	Placement          Placement // "" means InMessage
	BudgetBytes        int       // maximum block size; a session gets at most twice this size. 0 means 2 KiB.
	NoLoopDetection    bool
	NoCautions         bool           // results never turn a lesson into a caution (an approach to avoid)
	AdvertiseCommands  bool           // inform agents about /lesson commands
	Tags               *lesson.Tagger // derives tags from a turn's text; may be nil
	InjectByLikeness   bool           // inject lessons with like: true that match by likeness (similar words)
	SystemPromptAgents []string       // name patterns of agents that put the task into the system prompt
	Bandit             bandit.Config
}

const defaultBudget = 2 << 10 // bytes per block
