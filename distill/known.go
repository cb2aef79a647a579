package distill

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed known.json
var knownText []byte

// known is a failure that is the same everywhere: its words belong to a public program, and what
// helps is known. A lesson comes of it only where sessions met the failure; what is known here is
// how to say it.
type known struct {
	Slug   string   `json:"slug"`
	Title  string   `json:"title"`
	Advice []string `json:"advice"`
	Holds  []string `json:"holds"`    // words that the error holds, all of them, in lower case
	Fires  []string `json:"fires_on"` // what the lesson fires on
}

// knownFailures lists them; the first that fits is taken, so what is special stands before what is
// general.
func knownFailures() ([]known, error) {
	var list []known
	if err := json.Unmarshal(knownText, &list); err != nil {
		return nil, fmt.Errorf("distill: known.json: %w", err)
	}
	return list, nil
}

// recognise finds the known failure that a result tells of.
func recognise(list []known, text string) *known {
	low := strings.ToLower(text)
next:
	for i := range list {
		for _, w := range list[i].Holds {
			if !strings.Contains(low, w) {
				continue next
			}
		}
		return &list[i]
	}
	return nil
}
