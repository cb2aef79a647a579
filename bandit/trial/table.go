package trial

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Columns is the number of values in a Table row.
const Columns = max(stratumSumCount, overallCount)

// Table holds ordered rows of integers. The rows are packed into bytes, because most rows have few and small values:
// unpacked, one session's evidence for one lesson would use 1,700 bytes (decision 65). A change makes new bytes, so
// copies of a Table can share bytes.
//
// A packed row consists of the group, At, a mask with a bit for each value other than 0, and these values.
type Table []byte

// Row is one Table row. Tables are ordered by Group and At.
type Row struct {
	Group  uint8
	At     int64
	Values [Columns]int64
}

// Next moves the first row from t into r, and reports whether there was a row.
func (t *Table) Next(r *Row) bool {
	if len(*t) == 0 {
		return false
	}
	var mask uint64
	var rest []byte
	r.Group, r.At, mask, rest = readHead(*t)
	r.Values = [Columns]int64{}
	for ; mask != 0; mask &= mask - 1 {
		v, n := binary.Varint(rest)
		r.Values[bits.TrailingZeros64(mask)] = v
		rest = rest[n:]
	}
	*t = rest
	return true
}

func readHead(b []byte) (group uint8, at int64, mask uint64, rest []byte) {
	at, n := binary.Varint(b[1:])
	mask, m := binary.Uvarint(b[1+n:])
	return b[0], at, mask, b[1+n+m:]
}

// Row returns a row's values, or zeros if the row is missing.
func (t Table) Row(group uint8, at int64) [Columns]int64 {
	var r Row
	for it := t; it.Next(&r); {
		if order := comparePositions(r.Group, r.At, group, at); order == 0 {
			return r.Values
		} else if order > 0 {
			break
		}
	}
	return [Columns]int64{}
}

func comparePositions(group uint8, at int64, otherGroup uint8, otherAt int64) int {
	return cmp.Or(cmp.Compare(group, otherGroup), cmp.Compare(at, otherAt))
}

type rowChange struct {
	group  uint8
	at     int64
	packed []byte          // bytes in the table
	values *[Columns]int64 // nil means unchanged
}

// Change calls f with a function that returns a row's values, so that f can change them. The function adds a missing
// row.
func (t *Table) Change(f func(row func(group uint8, at int64) *[Columns]int64)) {
	rows := t.split()
	f(func(group uint8, at int64) *[Columns]int64 {
		i, found := slices.BinarySearchFunc(rows, at, func(r rowChange, at int64) int { return comparePositions(r.group, r.at, group, at) })
		switch {
		case !found:
			rows = slices.Insert(rows, i, rowChange{group: group, at: at, values: new([Columns]int64)})
		case rows[i].values == nil:
			rows[i].values = new(Table(rows[i].packed).Row(group, at))
		}
		return rows[i].values
	})
	out := make([]byte, 0, len(*t)+64)
	for i := range rows {
		out = rows[i].append(out)
	}
	*t = slices.Clone(out) // drop append's spare capacity
}

func (t *Table) split() []rowChange {
	rows := make([]rowChange, 0, len(*t)/16+16)
	for b := []byte(*t); len(b) > 0; {
		group, at, mask, rest := readHead(b)
		for left := bits.OnesCount64(mask); left > 0; rest = rest[1:] {
			if rest[0] < 0x80 { // a value's last byte
				left--
			}
		}
		n := len(b) - len(rest)
		rows = append(rows, rowChange{group: group, at: at, packed: b[:n]})
		b = rest
	}
	return rows
}

func (r *rowChange) append(out []byte) []byte {
	if r.values == nil {
		return append(out, r.packed...)
	}
	out = binary.AppendVarint(append(out, r.group), r.at)
	var mask uint64
	for i, v := range r.values {
		if v != 0 {
			mask |= 1 << i
		}
	}
	out = binary.AppendUvarint(out, mask)
	for _, v := range r.values {
		if v != 0 {
			out = binary.AppendVarint(out, v)
		}
	}
	return out
}
