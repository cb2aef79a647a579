package rules

import (
	"cmp"
	"fmt"
	"slices"

	"precept/internal/wire"
)

// SeenFile is a rules file in the captured sessions. Token counts are estimates.
type SeenFile struct {
	File             string        `json:"file"` // path as the agent wrote it
	Agent            string        `json:"agent,omitempty"`
	Sessions         int           `json:"sessions"`
	TokensPerRequest int           `json:"tokens_per_request"` // tokens in the newest version
	TokensPerSession int           `json:"tokens_per_session"` // mean over the sessions with the file; every request repeats the file
	InputShare       float64       `json:"input_share"`        // share of the input tokens in the sessions with the file
	Problem          string        `json:"problem,omitempty"`  // why no section in the file is cut
	Sections         []SeenSection `json:"sections"`

	indexByName map[string]int // index in Sections
	tokens      int64          // in all requests of all sessions

	// Sums over the sessions with known input tokens.
	input        int64 // tokens in the file
	sessionInput int64 // all input tokens
}

// SeenSection is a section of a SeenFile.
type SeenSection struct {
	Section          string  `json:"section"`
	Hash             string  `json:"hash"`
	Parent           string  `json:"parent,omitempty"` // enclosing section
	Sessions         int     `json:"sessions"`
	TokensPerRequest int     `json:"tokens_per_request"`
	TokensPerSession int     `json:"tokens_per_session"`
	InputShare       float64 `json:"input_share"`
	Forbids          string  `json:"forbids,omitempty"` // words that make the section a prohibition
	Problem          string  `json:"problem,omitempty"` // why the section cannot be measured

	tokens int64
}

// Scan collects rules files. The zero value is ready to use.
type Scan struct {
	Sessions int
	files    map[string]*SeenFile
	order    []*SeenFile
}

// noEnd is the SeenFile.Problem of a file in a user message that has no end marker.
const noEnd = "no marker ends the file in the user's message, so precept cannot remove a section from it"

// Add adds a session. Add the newest session first, because Files lists the version that was added first. head holds
// the passages before the first answer; input is the number of input tokens, or 0 if unknown.
func (s *Scan) Add(head []wire.Passage, requests, input int64) {
	s.Sessions++
	requests = max(requests, 1)
	seen := map[string][]string{} // contents by name
	for i := range head {
		text := head[i].Text
		for _, f := range Find(text) {
			f.Unterminated = f.Unterminated && head[i].Role == wire.RoleUser
			content := text[f.Start:f.End]
			same := seen[f.Name]
			if slices.Contains(same, content) {
				continue
			}
			seen[f.Name] = append(same, content)
			if len(same) > 0 { // some agents write no folder, so several files can have the same name
				f.Name = fmt.Sprintf("%s (%d)", f.Name, len(same)+1)
			}
			s.add(&f, content, requests, input)
		}
	}
}

// add counts a file and the sections in it. The first content under a name determines the listed sections.
func (s *Scan) add(f *File, content string, requests, input int64) {
	file := s.files[f.Name]
	sections := Split(content)
	if file == nil {
		file = &SeenFile{File: f.Name, Agent: f.Agent, TokensPerRequest: Tokens(content), indexByName: map[string]int{}}
		if f.Unterminated {
			file.Problem = noEnd
		}
		for i := range sections {
			file.Sections = append(file.Sections, seenSection(content, sections, i))
			file.indexByName[sections[i].Name] = i
		}
		if s.files == nil {
			s.files = map[string]*SeenFile{}
		}
		s.files[f.Name], s.order = file, append(s.order, file)
	}
	file.Sessions++
	file.tokens += int64(Tokens(content)) * requests
	if input > 0 {
		file.sessionInput += input
		file.input += int64(Tokens(content)) * requests
	}
	for i := range sections {
		text := content[sections[i].Start:sections[i].End]
		at, ok := file.indexByName[sections[i].Name]
		if !ok {
			continue // not in the newest version
		}
		file.Sections[at].Sessions++
		file.Sections[at].tokens += int64(Tokens(text)) * requests
	}
}

func seenSection(content string, sections []Section, i int) SeenSection {
	text := content[sections[i].Start:sections[i].End]
	out := SeenSection{Section: sections[i].Name, Hash: Hash(text), TokensPerRequest: Tokens(text), Forbids: FindProhibition(text), Problem: sections[i].Problem()}
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
