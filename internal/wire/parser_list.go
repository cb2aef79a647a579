package wire

import (
	"slices"

	"github.com/cespare/xxhash/v2"
)

func (p *parser) itemList(i int) int {
	p.list, p.results, p.hasNonObject = nil, nil, false
	return p.listItems(p.scan.firstElement(i, ']', 2))
}

func (p *parser) listItems(i int, more bool) int {
	for more {
		if !p.countOne() {
			return invalid
		}
		if i < len(p.scan.b) && p.scan.b[i] == '{' {
			i = p.item(i)
		} else {
			p.hasNonObject = true
			i = p.scan.skipValue(i, 2)
		}
		i, more = p.scan.nextElement(i, ']')
	}
	p.countAtListEnd, p.toolsAtListEnd = p.count, len(p.tools)
	return i
}

// countedValue is like scanner.skipValue, but counts the elements if the value is an array, because the elements can be
// parts or calls.
func (p *parser) countedValue(i, depth int) int {
	if i >= len(p.scan.b) || p.scan.b[i] != '[' {
		return p.scan.skipValue(i, depth)
	}
	i, more := p.scan.firstElement(i, ']', depth+1)
	for more {
		if !p.countOne() {
			return invalid
		}
		i, more = p.scan.nextElement(p.scan.skipValue(i, depth+1), ']')
	}
	return i
}

func (p *parser) item(start int) int {
	var role, kind, call, named span
	blocks, resultsBefore, tools := -1, len(p.results), len(p.tools)
	i, more := p.scan.firstElement(start, '}', 3)
	for more {
		var name span
		if name, i = p.scan.key(i); i < 0 {
			return invalid
		}
		from, field := i, unescapeBytes(name.of(p.scan.b))
		content := p.dialect == Messages && string(field) == "content"
		if content {
			p.results, blocks = p.results[:resultsBefore], -1 // if the key repeats, the last content is used
		}
		switch list := i < len(p.scan.b) && p.scan.b[i] == '['; {
		case content && list:
			i, blocks = p.blocks(i)
		case list && p.dialect == Responses && string(field) == "tools":
			i = p.toolList(i, 4)
		default:
			i = p.countedValue(i, 3)
		}
		switch string(field) {
		case "role":
			role = span{from, i}
		case "type":
			kind = span{from, i}
		case "tool_call_id", "call_id":
			call = span{from, i}
		case "id":
			if call.empty() {
				call = span{from, i}
			}
		case "name":
			named = span{from, i}
		}
		i, more = p.scan.nextElement(i, '}')
	}
	if p.dialect == Chat && call.empty() { // a function result in the older form has a name, but no call id
		call = named
	}
	if string(p.stringAt(kind)) != "additional_tools" { // the model cannot call tools that other items describe
		p.tools = p.tools[:tools]
	}
	if i > 0 {
		p.addItem(span{start, i}, p.stringAt(role), p.stringAt(kind), p.stringAt(call), blocks, resultsBefore)
	}
	return i
}

func (p *parser) blocks(i int) (end, n int) {
	i, more := p.scan.firstElement(i, ']', 4)
	for ; more; n++ {
		if !p.countOne() {
			return invalid, n
		}
		if i < len(p.scan.b) && p.scan.b[i] == '{' {
			i = p.block(i, n)
		} else {
			i = p.scan.skipValue(i, 4)
		}
		i, more = p.scan.nextElement(i, ']')
	}
	return i, n
}

func (p *parser) block(i, n int) int {
	var kind, call span
	i, more := p.scan.firstElement(i, '}', 5)
	for more {
		var name span
		if name, i = p.scan.key(i); i < 0 {
			return invalid
		}
		from := i
		i = p.countedValue(i, 5)
		switch string(unescapeBytes(name.of(p.scan.b))) {
		case "type":
			kind = span{from, i}
		case "tool_use_id":
			call = span{from, i}
		}
		i, more = p.scan.nextElement(i, '}')
	}
	if i > 0 && string(p.stringAt(kind)) == "tool_result" {
		p.results = append(p.results, scannedResult{int32(len(p.list)), int32(n), xxhash.Sum64(p.stringAt(call))})
	}
	return i
}

// addItem records an item. blocks is the number of content blocks, or -1 if the content is not a list. resultsBefore is
// the number of results in earlier items.
func (p *parser) addItem(item span, role, kind, call []byte, blocks, resultsBefore int) {
	if p.list == nil {
		p.list = make([]entry, 0, 16)
		p.results = slices.Grow(p.results, turnCapacity)
	}
	e := entry{start: int32(item.start), end: int32(item.end), resultsBefore: int32(resultsBefore), role: parseRole(string(role))}
	switch p.dialect {
	case Responses:
		if e.role = itemRole(role, kind); e.role == RoleTool {
			p.results = append(p.results, scannedResult{int32(len(p.list)), 0, xxhash.Sum64(call)})
		}
	case Messages:
		if n := len(p.results) - resultsBefore; e.role == RoleUser && n > 0 && n == blocks {
			e.role = RoleTool
		} else if e.role != RoleUser {
			p.results = p.results[:resultsBefore]
		}
	case Chat:
		if e.role == RoleTool {
			p.results = append(p.results, scannedResult{int32(len(p.list)), 0, xxhash.Sum64(call)})
		}
	case NoDialect:
	}
	p.list = append(p.list, e)
}
