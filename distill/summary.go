package distill

// Summary is what a run did.
type Summary struct {
	Read           int            `json:"read"`      // sessions looked at
	Unchanged      int            `json:"unchanged"` // of them: nothing was new
	Judged         int            `json:"judged"`
	Failed         int            `json:"failed"`     // sessions that could not be judged
	Candidates     int            `json:"candidates"` // lessons that were drafted
	Proposed       int            `json:"proposed"`
	Merged         int            `json:"merged"`  // said already: their sessions were added as evidence
	Refused        map[string]int `json:"refused"` // by reason
	Contradictions int            `json:"contradictions"`
	Opinions       int            `json:"opinions"` // on lessons in force
	Tokens         int64          `json:"tokens,omitempty"`
	Cost           float64        `json:"cost,omitempty"`
	Stopped        string         `json:"stopped,omitempty"` // why before the end
	Busy           []string       `json:"busy,omitempty"`    // tenants that somebody else is at
	Drafts         []Drafted      `json:"drafts,omitempty"`
	MergedInto     []string       `json:"merged_into,omitempty"`
}

// Drafted is a draft with what became of it.
type Drafted struct {
	Draft
	State  string `json:"state,omitempty"`
	Reason string `json:"reason,omitempty"` // why it was refused
}

// maxDrafts bounds what a summary lists.
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
