package feedback

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Definition is what a session's reward is: which tiers count, whether what users say in their own
// words does, and at which age a session closes. Rewards under different definitions cannot be
// compared; their counters are kept apart.
type Definition struct {
	Tiers      []int // nil: all
	Sentiment  bool
	CloseAfter time.Duration
}

// DefaultDefinition is what rewards are where nobody says otherwise, and of what counters are that
// name no definition.
const DefaultDefinition = "user>verifier>implicit@24h0m0s"

// names are the tiers in words, the highest first.
func names() []string { return []string{"user", "verifier", "implicit"} }

const withSentiment = "+sentiment"

// String is "user>verifier>implicit@24h0m0s". Definitions that mean the same read the same.
func (d Definition) String() string {
	var words []string
	for i, name := range names() {
		if len(d.Tiers) == 0 || slices.Contains(d.Tiers, i+1) {
			words = append(words, name)
		}
	}
	text := strings.Join(words, ">")
	if d.Sentiment {
		text += withSentiment
	}
	return text + "@" + d.CloseAfter.String()
}

// ParseDefinition reads what String wrote.
func ParseDefinition(text string) (d Definition, err error) {
	which, age, _ := strings.Cut(text, "@")
	if d.CloseAfter, err = time.ParseDuration(age); err != nil {
		return Definition{}, fmt.Errorf("feedback: a definition of reward reads %q, not like %q", text, Definition{CloseAfter: 24 * time.Hour})
	}
	which, d.Sentiment = strings.CutSuffix(which, withSentiment)
	for word := range strings.SplitSeq(which, ">") {
		i := slices.Index(names(), word)
		if i < 0 {
			return Definition{}, fmt.Errorf("feedback: a definition of reward reads %q: there is no source %q", text, word)
		}
		d.Tiers = append(d.Tiers, i+1)
	}
	return d, nil
}
