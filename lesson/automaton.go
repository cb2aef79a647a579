package lesson

import (
	"cmp"
	"slices"
)

// automaton is an Aho-Corasick automaton over classes. States are numbered breadth first, so the
// children of a state are neighbours and the shallow states, where a scan spends its time, come
// first: those have a full row of transitions with the failure links resolved. The deep ones have
// only the labels of their few children and a failure link.
//
// A scan walks on references: the offset of the row of a state that has one, else limit plus its
// number beyond those; with emitBit when some word ends there. So a step is one addition and one
// load.
type automaton struct {
	width  int   // classes in a row
	dense  int32 // states below this have a row
	limit  int32 // dense * width: references below this are row offsets
	rows   []int32
	states []state // and one more, for the end of the last one's children
	ends   []end
}

// end is what ends at a state: the words that are spelled exactly by it, and the end of a shorter
// suffix, 0 for none.
type end struct {
	ids  []int32
	next int32
}

// state is 16 bytes, so that following a long phrase costs one cache line a step.
type state struct {
	first int32 // first child; the children end where the next state's begin
	fail  int32
	emit  int32 // index into ends of what ends here; 0: nothing
	label class // of the edge into this state
}

const (
	emitBit   = int32(-1 << 31)
	rowBudget = 2 << 20 // bytes of full rows: they should stay in the second-level cache
)

// word is a string of classes to find, and what to report for it.
type word struct {
	text []class
	id   int32
}

// newAutomaton builds the automaton, with rows of at most budget bytes, but one. The words are not
// empty.
func newAutomaton(words []word, width, budget int) *automaton {
	slices.SortFunc(words, func(x, y word) int {
		return cmp.Or(slices.Compare(x.text, y.text), cmp.Compare(x.id, y.id))
	})
	m := &automaton{width: width}
	m.build(words)
	m.link(budget)
	return m
}

// span is a run of sorted words that share their first depth classes: one state of the trie.
type span struct{ lo, hi, depth int32 }

// build lays out the trie breadth first from the sorted words, without a map.
func (m *automaton) build(words []word) {
	queue := []span{{0, int32(len(words)), 0}} //nolint:gosec // bounded by memory long before
	m.states = append(m.states, state{})
	m.ends = append(m.ends, end{})
	for s := 0; s < len(queue); s++ {
		q := queue[s]
		m.states[s].first = int32(len(queue)) //nolint:gosec // as above
		i := q.lo
		var ids []int32
		for ; i < q.hi && len(words[i].text) == int(q.depth); i++ {
			ids = append(ids, words[i].id)
		}
		if len(ids) > 0 {
			m.states[s].emit = int32(len(m.ends)) //nolint:gosec // as above
			m.ends = append(m.ends, end{ids: ids})
		}
		for i < q.hi {
			c, j := words[i].text[q.depth], i+1
			for j < q.hi && words[j].text[q.depth] == c {
				j++
			}
			queue = append(queue, span{i, j, q.depth + 1})
			m.states = append(m.states, state{label: c})
			i = j
		}
	}
	m.states = append(slices.Clip(m.states), state{first: int32(len(queue))}) //nolint:gosec // as above
}

// link fills failure links, ends and rows, in breadth-first order: a failure link always points to
// a state that is done.
func (m *automaton) link(budget int) {
	n := len(m.states) - 1
	dense := max(1, min(n, budget/(4*m.width)))
	m.dense, m.limit = int32(dense), int32(dense*m.width) //nolint:gosec // bounded by budget
	m.rows = make([]int32, dense*m.width)
	for s := range n {
		st := &m.states[s]
		if s > 0 {
			suffix := m.states[st.fail].emit
			if st.emit == 0 {
				st.emit = suffix
			} else {
				m.ends[st.emit].next = suffix
			}
			for c := st.first; c < m.states[s+1].first; c++ {
				m.states[c].fail = m.follow(st.fail, m.states[c].label)
			}
		}
		if s < dense {
			m.row(s)
		}
	}
	for i, t := range m.rows { // until now they hold state numbers
		m.rows[i] = m.reference(t)
	}
}

// row fills the row of a state with state numbers: the failure state's transitions, and its own
// over them.
func (m *automaton) row(s int) {
	st := &m.states[s]
	row := m.rows[s*m.width : (s+1)*m.width]
	if s > 0 {
		f := int(st.fail)
		copy(row, m.rows[f*m.width:(f+1)*m.width])
	}
	for c := st.first; c < m.states[s+1].first; c++ {
		row[m.states[c].label] = c
	}
}

// follow is the transition by class c while the rows still hold state numbers.
func (m *automaton) follow(s int32, c class) int32 {
	for s >= m.dense {
		if k := m.child(s, c); k != 0 {
			return k
		}
		s = m.states[s].fail
	}
	return m.rows[int(s)*m.width+int(c)]
}

// child finds the child of a state by its label; 0 when there is none. Deep states rarely have more
// than one.
func (m *automaton) child(s int32, c class) int32 {
	for k := m.states[s].first; k < m.states[s+1].first; k++ {
		if m.states[k].label == c {
			return k
		}
	}
	return 0
}

// reference is what a scan knows a state by.
func (m *automaton) reference(s int32) int32 {
	ref := s * int32(m.width) //nolint:gosec // below limit
	if s >= m.dense {
		ref = m.limit + s - m.dense
	}
	if m.states[s].emit != 0 {
		ref |= emitBit
	}
	return ref
}

// number is the state behind a reference.
func (m *automaton) number(ref int32) int32 {
	ref &^= emitBit
	if ref < m.limit {
		return ref / int32(m.width) //nolint:gosec // at most maxClass
	}
	return ref - m.limit + m.dense
}

// deep is the step from a state without a row.
func (m *automaton) deep(ref int32, c class) int32 {
	for s := ref - m.limit + m.dense; ; {
		if k := m.child(s, c); k != 0 {
			return m.reference(k)
		}
		if s = m.states[s].fail; s < m.dense {
			return m.rows[int(s)*m.width+int(c)]
		}
	}
}

// scan calls found for every word that ends in text, with the position behind it, until it says no.
func (m *automaton) scan(text []class, found func(id int32, end int) bool) {
	rows, limit, ref := m.rows, m.limit, int32(0)
	for i := 0; i < len(text); i++ {
		if c := text[i]; ref < limit {
			ref = rows[int(ref)+int(c)]
		} else {
			ref = m.deep(ref, c)
		}
		if ref > 0 {
			continue
		}
		if ref == 0 { // nothing is under way: run on to what begins something
			for i+1 < len(text) && rows[text[i+1]] == 0 {
				i++
			}
			continue
		}
		for e := m.states[m.number(ref)].emit; e != 0; e = m.ends[e].next {
			for _, id := range m.ends[e].ids {
				if !found(id, i+1) {
					return
				}
			}
		}
		ref &^= emitBit
	}
}
