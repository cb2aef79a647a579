package wire

import "bytes"

// Kept is a piece of a list that was kept after its request: the items of one turn.
type Kept[T ~[]byte] struct {
	Dialect Dialect // None: the items show it
	Items   []T     // as they stood in the list
	From    int     // the place of the first of them in the list
	Said    string  // the model's text before them: agents that write their calls as text are understood by it
}

// Read decodes the items as Request.Item does, one for each. Bytes that are no item give an empty
// one of RoleOther. The string that the Responses API takes in place of a list is a user's item.
func (k Kept[T]) Read() []*Item {
	out := make([]*Item, len(k.Items))
	r := k.request()
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

// request makes the list that the items would be alone, with what was said before them; nil where
// they make none.
func (k Kept[T]) request() *Request {
	size := len(k.Said) + 64
	for _, raw := range k.Items {
		size += len(raw) + 32
	}
	list := append(make([]byte, 0, size), `[{"role":"assistant","content":`...)
	list = append(AppendString(list, k.Said), '}')
	for _, raw := range k.Items {
		list = appendItem(append(list, ','), raw)
	}
	list = append(list, ']')
	d := k.Dialect
	if d == None {
		d = recordedDialect(list, span{0, len(list)})
	}
	p := &parser{scanner: scanner{b: appendBody(make([]byte, 0, len(list)+16), d, list)}, dialect: d, base: k.From - 1}
	r, err := p.request(p.body(), nil)
	if err != nil {
		return nil
	}
	return r
}

// listDepth is how deep in a body the items of its list are nested.
const listDepth = 2

// appendItem appends an item of a list, an empty object for what is none.
func appendItem(dst, raw []byte) []byte {
	switch v, ok := whole(raw, listDepth); {
	case ok && raw[v.start] == '{':
		return append(dst, raw...)
	case ok && raw[v.start] == '"':
		return append(append(append(dst, `{"role":"user","content":`...), raw...), '}')
	}
	return append(dst, "{}"...)
}

// appendBody appends a body that holds nothing but a list.
func appendBody(dst []byte, d Dialect, list []byte) []byte {
	dst = append(append(append(dst, `{"`...), d.listKey()...), `":`...)
	return append(append(dst, list...), '}')
}

// Elements cuts a JSON array into its elements, which are parts of it. ok is false for what is no
// array.
func Elements[T ~[]byte](array []byte) (list []T, ok bool) {
	v, ok := whole(array, 0)
	if !ok || array[v.start] != '[' {
		return nil, false
	}
	for e := range elements(array, v) {
		list = append(list, e.of(array))
	}
	return list, true
}

// CallsIn gives the JSON of the calls in an item of a list, of whichever dialect: also of kinds of
// calls that are not read elsewhere, because what they name may have to be known all the same. ok
// is false for what is no item.
func CallsIn(item []byte) (calls [][]byte, ok bool) {
	v, ok := whole(item, listDepth)
	if !ok {
		return nil, false
	}
	for name, v := range members(item, v) {
		switch string(name) {
		case "type":
			if bytes.HasSuffix(chars(item, v), []byte("_call")) {
				return [][]byte{item}, true
			}
		case "tool_calls", "function_call":
			calls = append(calls, v.of(item))
		case "content":
			calls = append(calls, callParts(item, v)...)
		}
	}
	return calls, true
}

// callParts gives what the calls in a content are made with.
func callParts(b []byte, content span) (inputs [][]byte) {
	for e := range elements(b, content) {
		if bytes.HasSuffix(chars(b, member(b, e, "type")), []byte("tool_use")) {
			inputs = append(inputs, member(b, e, "input").of(b))
		}
	}
	return inputs
}
