package lesson

import (
	"cmp"
	"slices"
)

// automaton is an Aho-Corasick automaton over bytes. States are numbered breadth first, so a state's children are
// adjacent. The first states, where a scan spends most of the time, have a full row of transitions.
type automaton struct {
	states  []automatonState  // the last element only ends the previous state's children
	rows    [][256]int32      // for the first states: next state by byte
	wordIDs map[int32][]int32 // by state, the words ending there
}

type automatonState struct {
	firstChild int32 // the children end before the next state's firstChild
	fail       int32 // failure link: the state for the longest proper suffix
	output     int32 // first state along the failure links, beginning with this state, at which a word ends; 0 if none
	label      byte  // label of the incoming edge
}

// maxRows is the maximum number of full rows, which have 1 KiB each. All rows then fit into a processor's second-level
// cache.
const maxRows = 1024

type word struct {
	text []byte
	id   int32
}

// newAutomaton returns an automaton for non-empty words. At least the root gets a full row.
func newAutomaton(words []word, fullRows int) *automaton {
	slices.SortFunc(words, func(x, y word) int {
		return cmp.Or(slices.Compare(x.text, y.text), cmp.Compare(x.id, y.id))
	})
	m := &automaton{wordIDs: map[int32][]int32{}}
	m.build(words)
	m.link(fullRows)
	return m
}

// span is a trie state. Its words are words[lo:hi], in sorted order, which have the first depth bytes in common.
type span struct{ lo, hi, depth int }

// build lays out the trie breadth first.
func (a *automaton) build(words []word) {
	queue := []span{{0, len(words), 0}}
	a.states = append(a.states, automatonState{})
	for s := 0; s < len(queue); s++ {
		q := queue[s]
		a.states[s].firstChild = int32(len(queue)) //nolint:gosec // the number of states fits in an int32
		i := q.lo
		for ; i < q.hi && len(words[i].text) == q.depth; i++ {
			a.states[s].output = int32(s)                                  //nolint:gosec // the number of states fits in an int32
			a.wordIDs[int32(s)] = append(a.wordIDs[int32(s)], words[i].id) //nolint:gosec // the number of states fits in an int32
		}
		for i < q.hi {
			label, j := words[i].text[q.depth], i+1
			for j < q.hi && words[j].text[q.depth] == label {
				j++
			}
			queue = append(queue, span{i, j, q.depth + 1})
			a.states = append(a.states, automatonState{label: label})
			i = j
		}
	}
	a.states = append(slices.Clip(a.states), automatonState{firstChild: int32(len(queue))}) //nolint:gosec // the number of states fits in an int32
}

// link computes failure links, output links and rows breadth first. In this order, the target of a failure link is
// always complete.
func (a *automaton) link(fullRows int) {
	n := len(a.states) - 1
	a.rows = make([][256]int32, 0, max(1, min(n, fullRows)))
	for s := range n {
		st := &a.states[s]
		st.output = cmp.Or(st.output, a.states[st.fail].output)
		row := [256]int32{}
		if s > 0 && s < cap(a.rows) {
			row = a.rows[st.fail]
		}
		for c := st.firstChild; c < a.states[s+1].firstChild; c++ {
			if s > 0 {
				a.states[c].fail = a.step(st.fail, a.states[c].label)
			}
			row[a.states[c].label] = c
		}
		if s < cap(a.rows) {
			a.rows = append(a.rows, row)
		}
	}
}

func (a *automaton) step(s int32, c byte) int32 {
	for int(s) >= len(a.rows) {
		for k := a.states[s].firstChild; k < a.states[s+1].firstChild; k++ {
			if a.states[k].label == c {
				return k
			}
		}
		s = a.states[s].fail
	}
	return a.rows[s][c]
}

// scan calls emit for each word in text, with the offset after the word, until emit returns false.
func (a *automaton) scan(text []byte, emit func(id int32, end int) bool) {
	s := int32(0)
	for i, c := range text {
		s = a.step(s, c)
		for e := a.states[s].output; e != 0; e = a.states[a.states[e].fail].output {
			for _, id := range a.wordIDs[e] {
				if !emit(id, i+1) {
					return
				}
			}
		}
	}
}
