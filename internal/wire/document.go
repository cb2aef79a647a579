package wire

import (
	"bytes"
	"strconv"
)

// Document reads a JSON document in one pass. After a type mismatch, each read fails and returns the zero value.
type Document struct {
	scan scanner
	text string // the document as a string, so that a text without an escape needs no copy
	at   int    // next value's offset, or invalid
}

// NewDocument returns a reader for a UTF-8 document.
func NewDocument(json []byte) *Document {
	d := &Document{scan: scanner{b: json}, text: string(json)}
	d.at = d.scan.skipSpace(0)
	return d
}

// Done reports whether the whole document was read without a failure.
func (d *Document) Done() bool { return d.at >= 0 && d.scan.skipSpace(d.at) == len(d.text) }

// Fail makes every further read fail.
func (d *Document) Fail() { d.at = invalid }

// Object reads an object. It calls member with each name, and member must read the value.
func (d *Document) Object(member func(name string)) {
	if !d.expect('{') {
		return
	}
	i, more := d.scan.firstElement(d.at, '}', 1)
	for more {
		name, value := d.scan.key(i)
		if d.at = value; value < 0 {
			return
		}
		member(d.innerText(name))
		i, more = d.scan.nextElement(d.at, '}')
	}
	d.at = i
}

// Array reads an array. It calls element for each value in the array, and element must read that value.
func (d *Document) Array(element func()) {
	if !d.expect('[') {
		return
	}
	i, more := d.scan.firstElement(d.at, ']', 1)
	for more {
		d.at = i
		element()
		i, more = d.scan.nextElement(d.at, ']')
	}
	d.at = i
}

// Text reads a string.
func (d *Document) Text() string {
	if !d.expect('"') {
		return ""
	}
	from := d.at + 1
	if d.at = stringEnd(d.scan.b, from); d.at < 0 {
		return ""
	}
	return d.innerText(span{from, d.at - 1})
}

func (d *Document) innerText(inner span) string {
	if raw := inner.of(d.scan.b); bytes.IndexByte(raw, '\\') >= 0 {
		return string(unescapeBytes(raw))
	}
	return d.text[inner.start:inner.end]
}

// Raw returns the bytes of a value of any type, nested up to maxDepth.
func (d *Document) Raw() []byte {
	if d.at < 0 {
		return nil
	}
	from := d.at
	if d.at = d.scan.skipValue(from, 0); d.at < 0 {
		return nil
	}
	return d.scan.b[from:d.at]
}

// Int reads an integer.
func (d *Document) Int() int {
	n, err := strconv.Atoi(string(d.Raw()))
	if err != nil {
		d.Fail()
		return 0
	}
	return n
}

// Float reads a number.
func (d *Document) Float() float64 {
	v, err := strconv.ParseFloat(string(d.Raw()), 64)
	if err != nil {
		d.Fail()
		return 0
	}
	return v
}

func (d *Document) expect(first byte) bool {
	if d.at < 0 || d.at >= len(d.text) || d.text[d.at] != first {
		d.Fail()
		return false
	}
	return true
}
