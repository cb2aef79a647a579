package lesson

import (
	"cmp"
	"slices"
)

// automaton is an Aho-Corasick automaton over bytes. States are numbered breadth first, so the
// children of a state are neighbours. The shallow states, where a scan spends most of its time,
// come first and have a full row of transitions. The many deep states have only the labels of their
// few children and a failure link.
type automaton struct {
	states []state           // one extra state at the end marks the end of the last state's children
	rows   [][256]int32      // transition tables of the first states: next state by byte
	ends   map[int32][]int32 // by state, the ids of the words that end there
}

// state is a state of the automaton: a prefix of one or more words.
type state struct {
	first int32 // first child; the children end where the next state's children start
	fail  int32 // state of the longest proper suffix
	end   int32 // first state on the chain of failure links, starting with this state, in which a word ends; 0 if none
	label byte  // label of the incoming edge
}

// maxRows is the maximum number of states with a full row. A row has 1 KiB, and all rows together should fit into the
// second-level cache.
const maxRows = 1024

// word is a text to find, with the id to report.
type word struct {
	text []byte
	id   int32
}

// newAutomaton builds the automaton of non-empty words. The first rows states have full rows of transitions. The root
// always has one.
func newAutomaton(words []word, rows int) *automaton {
	slices.SortFunc(words, func(x, y word) int {
		return cmp.Or(slices.Compare(x.text, y.text), cmp.Compare(x.id, y.id))
	})
	m := &automaton{ends: map[int32][]int32{}}
	m.build(words)
	m.link(rows)
	return m
}

// span is a range of the sorted words. The words share their first depth bytes, so a span is one state of the trie.
type span struct{ lo, hi, depth int }

// build lays out the trie breadth first from the sorted words, without a map.
func (m *automaton) build(words []word) {
	queue := []span{{0, len(words), 0}}
	m.states = append(m.states, state{})
	for s := 0; s < len(queue); s++ {
		q := queue[s]
		m.states[s].first = int32(len(queue)) //nolint:gosec // memory limits the number of states long before
		i := q.lo
		for ; i < q.hi && len(words[i].text) == q.depth; i++ {
			m.states[s].end = int32(s)                               //nolint:gosec // as above
			m.ends[int32(s)] = append(m.ends[int32(s)], words[i].id) //nolint:gosec // as above
		}
		for i < q.hi {
			label, j := words[i].text[q.depth], i+1
			for j < q.hi && words[j].text[q.depth] == label {
				j++
			}
			queue = append(queue, span{i, j, q.depth + 1})
			m.states = append(m.states, state{label: label})
			i = j
		}
	}
	m.states = append(slices.Clip(m.states), state{first: int32(len(queue))}) //nolint:gosec // as above
}

// link computes failure links, ends and rows in breadth-first order, so that a failure link points
// to a finished state.
func (m *automaton) link(rows int) {
	n := len(m.states) - 1
	m.rows = make([][256]int32, 0, max(1, min(n, rows)))
	for s := range n {
		st := &m.states[s]
		st.end = cmp.Or(st.end, m.states[st.fail].end)
		row := [256]int32{}
		if s > 0 && s < cap(m.rows) {
			row = m.rows[st.fail]
		}
		for c := st.first; c < m.states[s+1].first; c++ {
			if s > 0 {
				m.states[c].fail = m.step(st.fail, m.states[c].label)
			}
			row[m.states[c].label] = c
		}
		if s < cap(m.rows) {
			m.rows = append(m.rows, row)
		}
	}
}

// step returns the next state for a byte.
func (m *automaton) step(s int32, c byte) int32 {
	for int(s) >= len(m.rows) {
		for k := m.states[s].first; k < m.states[s+1].first; k++ {
			if m.states[k].label == c {
				return k
			}
		}
		s = m.states[s].fail
	}
	return m.rows[s][c]
}

// scan calls found for every word that ends in text, with the position after the word, until found
// returns false.
func (m *automaton) scan(text []byte, found func(id int32, end int) bool) {
	s := int32(0)
	for i, c := range text {
		s = m.step(s, c)
		for e := m.states[s].end; e != 0; e = m.states[m.states[e].fail].end {
			for _, id := range m.ends[e] {
				if !found(id, i+1) {
					return
				}
			}
		}
	}
}
