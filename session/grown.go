package session

import (
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"precept/wire"
)

// Some agents send one message in every request, the task and behind it all that has happened: an
// agent that plays a form of completions, a chat that keeps its history in a template. What the
// model answered stands in no item of its own there. Such a conversation is known by its text: the
// next one is the one before, with something put in near its end that begins with the answer.

// growth is how far such a conversation is.
type growth struct {
	id    ID
	size  int // of the newest text, in bytes
	seams [growSeams]seam
	list  uint64
	said  []string // lines of the newest answer, the first one first
	open  bool     // no answer to the newest text went by
	grown bool
}

// seam is a place in a text at which the next one may go on otherwise: behind it stands no more
// than what a template ends with.
type seam struct {
	at             int
	before, behind uint64 // hashes
	rest           int    // how long what stands behind it is
}

// Bounds of what is known of texts that grow.
const (
	growHeads = 1024 // texts that begin alike,
	growAlike = 64   // and how many of each
	growSeams = 4
	growHead  = 128 // bytes of the first line that all texts of a conversation begin with
	growLines = 4   // of an answer,
	growLine  = 80
	growLeast = 12      // and so long at least
	growRoom  = 8 << 20 // bytes that are compared for a request, beside its own text
)

// growKey is what the texts of a conversation have in common.
type growKey struct {
	scope        Scope
	system, head uint64
}

// growths are conversations of which every request is one message.
type growths struct {
	mu   sync.Mutex
	of   map[growKey][]*growth
	ring ring[growKey]
}

func newGrowths() *growths {
	return &growths{of: make(map[growKey][]*growth), ring: ring[growKey]{most: growHeads}}
}

// growing is the text of a request that is one message and offers no tools, "" for another one.
func growing(req *wire.Request) string {
	last := req.Len() - 1
	if req.Delta || len(req.Tools) > 0 || last < 0 || last >= maxFront || req.Role(last) != wire.RoleUser {
		return ""
	}
	for i := range last {
		if req.Role(i) != wire.RoleSystem {
			return ""
		}
	}
	return strings.TrimSpace(req.Item(last).Text)
}

func (r *Resolved) growKey(system uint64, text string) growKey {
	line, _, _ := strings.Cut(text, "\n")
	return growKey{r.scope, system, xxhash.Sum64String(line[:min(len(line), growHead)])}
}

// seamsOf are the places at which a text may go on: its end, and before each of its last lines.
func seamsOf(text string) (seams [growSeams]seam) {
	end := len(text)
	for i := range seams {
		behind := strings.TrimSpace(text[end:])
		before := strings.TrimRight(text[:end], " \t\r\n")
		seams[i] = seam{len(before), xxhash.Sum64String(before), xxhash.Sum64String(behind), len(behind)}
		if end = strings.LastIndexByte(before, '\n'); end <= 0 {
			break
		}
	}
	return seams
}

// grown finds the conversation that the request's one message goes on with, and notes how far it
// is. Where several fit that are equal, it may be any of them.
func (t *Threader) grown(r *Resolved, req *wire.Request) bool {
	text := growing(req)
	if text == "" {
		return false
	}
	r.grow = r.growKey(req.SystemHash, text)
	best := t.growths.goOn(r, text)
	if len(best) == 0 {
		return false
	}
	if len(best) > 1 {
		r.Doubt = best
	}
	r.set(best[0])
	r.Method = ByEcho
	t.markTaken(r)
	return true
}

// goOn gives the conversations that the text may be of, and takes it for the first one's.
func (s *growths) goOn(r *Resolved, text string) (ids []ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := s.fitting(r, text)
	for _, g := range best {
		ids = append(ids, g.id)
	}
	if len(best) > 0 {
		best[0].grown = true
		best[0].ask(text, r.list)
	}
	return ids
}

// fitting are the conversations that the text may go on with, or else the one that it repeats.
func (s *growths) fitting(r *Resolved, text string) (best []*growth) {
	var again []*growth
	most, sums := 0, prefixSums{text: text, room: growRoom + 2*len(text)}
	for _, g := range slices.Backward(s.of[r.grow]) {
		switch n := g.goesOn(text, &sums); {
		case n > most:
			best, most = append(best[:0], g), n
		case n == most && n > 0:
			best = append(best, g)
		case g.grown && g.open && g.list == r.list:
			again = append(again[:0], g)
		}
	}
	if len(best) > 0 {
		return best
	}
	return again
}

// goesOn says how well the text goes on with the conversation's: by how much of that it begins
// with, then by how much of the answer it shows. 0 is not at all.
func (g *growth) goesOn(text string, sums *prefixSums) int {
	if g.open || len(g.said) == 0 || len(text) <= g.size {
		return 0
	}
	for _, c := range g.seams {
		end := len(text) - c.rest
		if c.at == 0 || end <= c.at || !sums.spend(len(text)-c.at) {
			continue
		}
		added := text[c.at:end]
		if strings.Contains(added, g.said[0]) && xxhash.Sum64String(text[end:]) == c.behind && sums.to(c.at) == c.before {
			shown := 0
			for _, line := range g.said {
				if strings.Contains(added, line) {
					shown++
				}
			}
			return c.at*(growLines+1) + shown
		}
	}
	return 0
}

// prefixSums are hashes of how a text begins: many conversations may begin alike. Their work is
// bounded.
type prefixSums struct {
	text string
	room int
	at   []int
	sum  []uint64
}

// spend says whether so many bytes may be looked at still.
func (p *prefixSums) spend(n int) bool {
	p.room -= n
	return p.room >= 0
}

func (p *prefixSums) to(n int) uint64 {
	i, ok := slices.BinarySearch(p.at, n)
	if !ok {
		if !p.spend(n) {
			return 0
		}
		p.at, p.sum = slices.Insert(p.at, i, n), slices.Insert(p.sum, i, xxhash.Sum64String(p.text[:n]))
	}
	return p.sum[i]
}

func (g *growth) ask(text string, list uint64) {
	g.size, g.seams, g.list, g.open = len(text), seamsOf(text), list, true
}

// begun notes a conversation that may grow so.
func (s *growths) begun(r *Resolved, req *wire.Request) {
	text := growing(req)
	if text == "" || r.grow == (growKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.of[r.grow]
	if len(list) == 0 {
		if oldest, full := s.ring.add(r.grow); full {
			delete(s.of, oldest)
		}
	}
	if slices.ContainsFunc(list, func(g *growth) bool { return g.id == r.ID }) {
		return // the same words, sent again
	}
	if len(list) == growAlike {
		list = append(list[:0], list[1:]...)
	}
	g := &growth{id: r.ID}
	g.ask(text, r.list)
	s.of[r.grow] = append(list, g)
}

// answered notes how the answer to a conversation's newest text begins.
func (s *growths) answered(r *Resolved, answer string) {
	if r.grow == (growKey{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.of[r.grow] {
		if g.id != r.ID {
			continue
		}
		g.said, g.open = nil, false
		for line := range strings.SplitSeq(answer[:min(len(answer), 4<<10)], "\n") {
			if line = strings.TrimSpace(line); len(line) >= growLeast && len(g.said) < growLines {
				g.said = append(g.said, strings.Clone(line[:min(len(line), growLine)]))
			}
		}
	}
}
