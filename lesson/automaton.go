package lesson

import (
	"cmp"
	"slices"
)

// automaton is an Aho-Corasick automaton over classes. States are numbered breadth first, so the children of a state are
// neighbours and the shallow states, where a scan spends its time, come first: those have a full row of transitions
// (failure links resolved), the deep ones only the labels of their few children and a failure link.
//
// A row entry is the next state, with emitBit set when some phrase ends there.
type automaton struct {
	width int     // classes in a row
	dense int     // states below this have a row
	rows  []int32 // dense * width
	first []int32 // first child of a state; its children end where the next state's begin
	label []class // of the edge into a state
	fail  []int32
	emit  []int32 // the state itself or its nearest suffix at which a phrase ends; 0: none
	outs  []int32 // by state: 1 + index into ends; 0: no phrase ends exactly here
	ends  [][]int32
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

// newAutomaton builds the automaton. The words are not empty.
func newAutomaton(words []word, width int) *automaton {
	slices.SortFunc(words, func(x, y word) int {
		return cmp.Or(slices.Compare(x.text, y.text), cmp.Compare(x.id, y.id))
	})
	m := &automaton{width: width}
	m.build(words)
	m.link()
	return m
}

// span is a run of sorted words that share their first depth classes: one state of the trie.
type span struct{ lo, hi, depth int32 }

// build lays out the trie breadth first from the sorted words, without a map.
func (m *automaton) build(words []word) {
	queue := []span{{0, int32(len(words)), 0}} //nolint:gosec // bounded by memory long before
	m.label = []class{classBreak}
	for s := 0; s < len(queue); s++ {
		q := queue[s]
		m.first = append(m.first, int32(len(queue))) //nolint:gosec // as above
		i := q.lo
		var ids []int32
		for ; i < q.hi && len(words[i].text) == int(q.depth); i++ {
			ids = append(ids, words[i].id)
		}
		out := int32(0)
		if len(ids) > 0 {
			m.ends = append(m.ends, ids)
			out = int32(len(m.ends)) //nolint:gosec // as above
		}
		m.outs = append(m.outs, out)
		for i < q.hi {
			c, j := words[i].text[q.depth], i+1
			for j < q.hi && words[j].text[q.depth] == c {
				j++
			}
			queue = append(queue, span{i, j, q.depth + 1})
			m.label = append(m.label, c)
			i = j
		}
	}
	m.first = append(m.first, int32(len(queue))) //nolint:gosec // as above
}

// link fills failure links, emit links and the full rows, in breadth-first order: a failure link always points to a
// state that is done.
func (m *automaton) link() {
	n := len(m.outs)
	m.fail, m.emit = make([]int32, n), make([]int32, n)
	m.dense = max(1, min(n, rowBudget/(4*m.width)))
	m.rows = make([]int32, m.dense*m.width)
	for s := range n {
		if m.outs[s] != 0 {
			m.emit[s] = int32(s) //nolint:gosec // a state number
		} else if s > 0 {
			m.emit[s] = m.emit[m.fail[s]]
		}
		for c := m.first[s]; c < m.first[s+1]; c++ {
			if s > 0 {
				m.fail[c] = m.next(m.fail[s], m.label[c]) &^ emitBit
			}
		}
		if s < m.dense {
			m.row(s)
		}
	}
	for i, t := range m.rows {
		if m.emit[t] != 0 {
			m.rows[i] = t | emitBit
		}
	}
}

func (m *automaton) row(s int) {
	row := m.rows[s*m.width : (s+1)*m.width]
	if s > 0 {
		f := int(m.fail[s])
		copy(row, m.rows[f*m.width:(f+1)*m.width])
	}
	for c := m.first[s]; c < m.first[s+1]; c++ {
		row[m.label[c]] = c
	}
}

// next is the transition from state s by class c.
func (m *automaton) next(s int32, c class) int32 {
	for int(s) >= m.dense {
		for k := m.first[s]; k < m.first[s+1]; k++ {
			if m.label[k] == c {
				if m.emit[k] != 0 {
					return k | emitBit
				}
				return k
			}
		}
		s = m.fail[s]
	}
	return m.rows[int(s)*m.width+int(c)]
}

// scan calls found for every word that ends in text, with the position behind it.
func (m *automaton) scan(text []class, found func(id int32, end int)) {
	s := int32(0)
	for i, c := range text {
		if int(s) < m.dense {
			s = m.rows[int(s)*m.width+int(c)]
		} else {
			s = m.next(s, c)
		}
		if s >= 0 {
			continue
		}
		s &^= emitBit
		for e := m.emit[s]; e != 0; e = m.emit[m.fail[e]] {
			for _, id := range m.ends[m.outs[e]-1] {
				found(id, i+1)
			}
		}
	}
}
