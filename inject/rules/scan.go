package rules

import (
	"cmp"
	"fmt"
	"slices"

	"precept/internal/wire"
)

// SeenFile is a rules file in the captured sessions. The numbers of tokens are estimates.
type SeenFile struct {
	File             string        `json:"file"` // path as the agent wrote it
	Agent            string        `json:"agent,omitempty"`
	Sessions         int           `json:"sessions"`
	TokensPerRequest int           `json:"tokens_per_request"` // of the newest version
	TokensPerSession int           `json:"tokens_per_session"` // mean over the sessions; every request repeats the file
	InputShare       float64       `json:"input_share"`        // share of the input tokens of the sessions
	Problem          string        `json:"problem,omitempty"`  // reason why no section of the file is cut
	Sections         []SeenSection `json:"sections"`

	places map[string]int // index of a section by its name
	tokens int64          // tokens of the file in all requests of all sessions

	// Sums over the sessions with a known number of input tokens.
	input        int64 // tokens of the file
	sessionInput int64 // all input tokens
}

// SeenSection is a section of a rules file in the captured sessions.
type SeenSection struct {
	Section          string  `json:"section"`
	Hash             string  `json:"hash"`
	Parent           string  `json:"parent,omitempty"` // section that contains this section
	Sessions         int     `json:"sessions"`
	TokensPerRequest int     `json:"tokens_per_request"`
	TokensPerSession int     `json:"tokens_per_session"`
	InputShare       float64 `json:"input_share"`
	Forbids          string  `json:"forbids,omitempty"` // word by which the section forbids something
	Problem          string  `json:"problem,omitempty"` // reason why the section cannot be measured

	tokens int64
}

// Scan collects the rules files of sessions. The zero value is ready to use.
type Scan struct {
	Sessions int // sessions that were added
	files    map[string]*SeenFile
	order    []*SeenFile
}

// noEnd is the problem of a file whose end in a user message is unknown.
const noEnd = "no marker ends the file in the message of the user, so its sections are not cut"

// Add adds a session: the passages before its first answer, the number of its requests, and its input tokens,
// 0 for an unknown number. Add the newest session first, because the first version of a file is listed.
func (s *Scan) Add(head []wire.Passage, requests, input int64) {
	s.Sessions++
	requests = max(requests, 1)
	seen := map[string][]string{} // contents by name
	for i := range head {
		text := head[i].Text
		for _, f := range Find(text) {
			f.Open = f.Open && head[i].Role == wire.RoleUser
			content := text[f.Start:f.End]
			same := seen[f.Name]
			if slices.Contains(same, content) {
				continue
			}
			seen[f.Name] = append(same, content)
			if len(same) > 0 { // some agents write no name, or no folder
				f.Name = fmt.Sprintf("%s (%d)", f.Name, len(same)+1)
			}
			s.add(&f, content, requests, input)
		}
	}
}

// add counts a rules file of a session with its sections. content is the text of the file. The first content that
// is added under the name of a file determines the listed sections.
func (s *Scan) add(f *File, content string, requests, input int64) {
	known := s.files[f.Name]
	sections := Split(content)
	if known == nil {
		known = &SeenFile{File: f.Name, Agent: f.Agent, TokensPerRequest: Tokens(content), places: map[string]int{}}
		if f.Open {
			known.Problem = noEnd
		}
		for i := range sections {
			known.Sections = append(known.Sections, seenSection(content, sections, i))
			known.places[sections[i].Name] = i
		}
		if s.files == nil {
			s.files = map[string]*SeenFile{}
		}
		s.files[f.Name], s.order = known, append(s.order, known)
	}
	known.Sessions++
	known.tokens += int64(Tokens(content)) * requests
	if input > 0 {
		known.sessionInput += input
		known.input += int64(Tokens(content)) * requests
	}
	for i := range sections {
		text := content[sections[i].Start:sections[i].End]
		at, ok := known.places[sections[i].Name]
		if !ok {
			continue // a section that the newest version does not have
		}
		known.Sections[at].Sessions++
		known.Sections[at].tokens += int64(Tokens(text)) * requests
	}
}

func seenSection(content string, sections []Section, i int) SeenSection {
	text := content[sections[i].Start:sections[i].End]
	out := SeenSection{Section: sections[i].Name, Hash: Hash(text), TokensPerRequest: Tokens(text), Forbids: Prohibition(text), Problem: sections[i].Problem()}
	if p := sections[i].Parent; p >= 0 {
		out.Parent = sections[p].Name
	}
	return out
}

// Files returns the files, the most expensive first.
func (s *Scan) Files() []SeenFile {
	out := make([]SeenFile, 0, len(s.order))
	for _, f := range s.order {
		c := *f
		c.TokensPerSession = int(c.tokens / int64(c.Sessions))
		share := func(tokens int64) float64 {
			if c.sessionInput == 0 || c.tokens == 0 {
				return 0
			}
			return min(1, float64(c.input)/float64(c.sessionInput)*float64(tokens)/float64(c.tokens))
		}
		c.InputShare = share(c.tokens)
		c.Sections = slices.Clone(c.Sections)
		for i := range c.Sections {
			k := &c.Sections[i]
			k.TokensPerSession, k.InputShare = int(k.tokens/int64(max(k.Sessions, 1))), share(k.tokens)
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b SeenFile) int {
		return cmp.Compare(b.TokensPerSession*b.Sessions, a.TokensPerSession*a.Sessions)
	})
	return out
}
