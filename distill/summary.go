package distill

// Summary is the result of a run.
type Summary struct {
	Read           int            `json:"read"`      // sessions looked at
	Unchanged      int            `json:"unchanged"` // sessions read without news
	Judged         int            `json:"judged"`
	Failed         int            `json:"failed"`     // sessions with an error
	Candidates     int            `json:"candidates"` // drafted lessons
	Proposed       int            `json:"proposed"`
	Merged         int            `json:"merged"`  // said already: their sessions were added as evidence
	Refused        map[string]int `json:"refused"` // by reason
	Contradictions int            `json:"contradictions"`
	Opinions       int            `json:"opinions"` // opinions about lessons
	Tokens         int64          `json:"tokens,omitempty"`
	Cost           float64        `json:"cost,omitempty"`
	Stopped        string         `json:"stopped,omitempty"` // why before the end
	Busy           []string       `json:"busy,omitempty"`    // tenants claimed by another process
	Drafts         []Drafted      `json:"drafts,omitempty"`
	MergedInto     []string       `json:"merged_into,omitempty"`
}

// Drafted is a draft with the result of its proposal.
type Drafted struct {
	Draft
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"` // reason of a refusal
}

// maxDrafts is the maximum number of drafts in a summary.
const maxDrafts = 500

func (s *Summary) add(d *Draft, state string) {
	s.Proposed++
	s.list(Drafted{Draft: *d, State: state})
}

func (s *Summary) refuse(d *Draft, why string) {
	s.Refused[why]++
	s.list(Drafted{Draft: *d, State: "refused", Reason: why})
}

func (s *Summary) list(d Drafted) {
	if len(s.Drafts) < maxDrafts {
		s.Drafts = append(s.Drafts, d)
	}
}
