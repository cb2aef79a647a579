package wire

import "bytes"

// StoredItems holds the items of one turn, as stored outside a request body.
type StoredItems[T ~[]byte] struct {
	Dialect   Dialect // NoDialect: Read derives the dialect from the items
	Items     []T     // JSON as in the list
	From      int     // list index of Items[0]
	ModelText string  // model's text before the items; may contain calls as prose
}

// Read decodes the items as Request.Item does. A string, which the Responses API accepts instead of a list, becomes a
// user item. Other bytes that are not an item become an empty item with RoleOther.
func (s StoredItems[T]) Read() []*Item {
	out := make([]*Item, len(s.Items))
	r := s.request()
	for i := range out {
		if r == nil {
			out[i] = &Item{Index: i}
			continue
		}
		out[i] = r.Item(i + 1)
		out[i].Index = i
	}
	return out
}

func (s StoredItems[T]) request() *Request {
	size := len(s.ModelText) + 64
	for _, raw := range s.Items {
		size += len(raw) + 32
	}
	body := make([]byte, 0, size)
	if s.Dialect != NoDialect {
		body = appendListKey(body, s.Dialect)
	}
	body = append(body, `[{"role":"assistant","content":`...)
	body = append(AppendString(body, s.ModelText), '}')
	for _, raw := range s.Items {
		body = appendItem(append(body, ','), raw)
	}
	body = append(body, ']')
	d := s.Dialect
	if d == NoDialect {
		d = recordedDialect(body, span{0, len(body)})
		body = append(appendListKey(make([]byte, 0, len(body)+32), d), body...)
	}
	p := &parser{scan: scanner{b: append(body, '}')}, dialect: d, firstIndex: s.From - 1}
	r, err := p.request(p.body(), nil)
	if err != nil {
		return nil
	}
	return r
}

const listDepth = 2

// appendItem appends an object unchanged, a string as a user item, and every other value as an empty object.
func appendItem(dst, raw []byte) []byte {
	switch v, ok := wholeValue(raw, listDepth); {
	case ok && raw[v.start] == '{':
		return append(dst, raw...)
	case ok && raw[v.start] == '"':
		return append(append(append(dst, `{"role":"user","content":`...), raw...), '}')
	}
	return append(dst, "{}"...)
}

func appendListKey(dst []byte, d Dialect) []byte {
	return append(append(append(dst, `{"`...), d.listKey()...), `":`...)
}

// Elements returns a JSON array's elements as slices of array. ok is false for other values.
func Elements[T ~[]byte](array []byte) (list []T, ok bool) {
	v, ok := wholeValue(array, 0)
	if !ok || array[v.start] != '[' {
		return nil, false
	}
	for e := range elements(array, v) {
		list = append(list, e.of(array))
	}
	return list, true
}

// CallsIn returns the JSON of all calls in an item, of any kind and in any dialect, because the search for opted-out
// paths must not miss a call. ok is false for bytes that are not an item.
func CallsIn(item []byte) (calls [][]byte, ok bool) {
	v, ok := wholeValue(item, listDepth)
	if !ok {
		return nil, false
	}
	for name, v := range members(item, v) {
		switch string(name) {
		case "type":
			if bytes.HasSuffix(textBytes(item, v), []byte("_call")) {
				return [][]byte{item}, true
			}
		case "tool_calls", "function_call":
			calls = append(calls, v.of(item))
		case "content":
			calls = append(calls, callInputs(item, v)...)
		}
	}
	return calls, true
}

func callInputs(b []byte, content span) (inputs [][]byte) {
	for e := range elements(b, content) {
		if bytes.HasSuffix(textBytes(b, member(b, e, "type")), []byte("tool_use")) {
			inputs = append(inputs, member(b, e, "input").of(b))
		}
	}
	return inputs
}
