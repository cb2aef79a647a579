package feedback

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Definition defines a session's reward. Rewards under different definitions are not comparable, so each definition has
// its own counters.
type Definition struct {
	Tiers      []int         // nil means all
	Sentiment  bool          // what the user writes also rates a session
	CloseAfter time.Duration // session age at which the reward is counted
}

// DefaultDefinition is the text of the default definition. Counters that name no definition have the default one.
const DefaultDefinition = "user>verifier>implicit@24h0m0s"

func tierNames() []string { return []string{"user", "verifier", "implicit"} }

const sentimentSuffix = "+sentiment"

// String returns the definition as text, such as "user>verifier>implicit@24h0m0s".
func (d Definition) String() string {
	var words []string
	for i, name := range tierNames() {
		if len(d.Tiers) == 0 || slices.Contains(d.Tiers, i+1) {
			words = append(words, name)
		}
	}
	text := strings.Join(words, ">")
	if d.Sentiment {
		text += sentimentSuffix
	}
	return text + "@" + d.CloseAfter.String()
}

// ParseDefinition parses what String returns.
func ParseDefinition(text string) (d Definition, err error) {
	tiers, age, _ := strings.Cut(text, "@")
	if d.CloseAfter, err = time.ParseDuration(age); err != nil {
		return Definition{}, fmt.Errorf("feedback: the reward definition %q has no valid age; write a definition like %q", text, Definition{CloseAfter: 24 * time.Hour})
	}
	tiers, d.Sentiment = strings.CutSuffix(tiers, sentimentSuffix)
	for word := range strings.SplitSeq(tiers, ">") {
		i := slices.Index(tierNames(), word)
		if i < 0 {
			return Definition{}, fmt.Errorf("feedback: the reward definition %q names the unknown tier %q; the tiers are %s", text, word, strings.Join(tierNames(), ", "))
		}
		d.Tiers = append(d.Tiers, i+1)
	}
	return d, nil
}
