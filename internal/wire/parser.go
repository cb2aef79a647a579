package wire

import "bytes"

// parser proves that a body is JSON. In the same pass, it records the top-level members, the list items and roles, and
// the tool result ids, because a second pass would cost as much.
type parser struct {
	scan         scanner
	dialect      Dialect
	spans        memberSpans
	keys         []span // top-level names
	list         []entry
	results      []scannedResult
	tools        []span // tool names
	hasNonObject bool   // the list has values that are not objects
	firstIndex   int    // see requestScan.firstIndex
	prelude      listPrelude

	count          int // number of items, parts, calls, tools and keys
	maxCount       int // 0 means no limit
	countAtListEnd int
	toolsAtListEnd int
	overLimit      bool
}

// listPrelude describes the members before the list, which stay unchanged while the conversation grows.
type listPrelude struct {
	spans memberSpans
	keys  int
}

// memberSpans holds the top-level members that precept reads. An absent member has an empty span. If generate is false,
// the request asks for no output.
type memberSpans struct {
	list, model, generate, metadata, cacheKey, previous, conversation, system, tools, format, toolChoice span
	// misspelt is a "system" or "instructions" member with a name in a different case, such as "System".
	misspelt span
}

func (p *parser) body() int {
	i := p.scan.skipSpace(0)
	if i >= len(p.scan.b) || p.scan.b[i] != '{' {
		return p.scan.skipValue(i, 0)
	}
	p.keys = make([]span, 0, 24)
	return p.members(p.scan.firstElement(i, '}', 1))
}

// countOne counts an item, part, call, tool or key, and reports whether maxCount permits it. A parsed element takes
// more memory than its bytes in the body, and the client chooses the number of elements.
func (p *parser) countOne() bool {
	p.count++
	p.overLimit = p.overLimit || p.maxCount > 0 && p.count > p.maxCount
	return !p.overLimit
}

func (p *parser) members(i int, more bool) int {
	for more {
		var name span
		if !p.countOne() {
			return invalid
		}
		if name, i = p.scan.key(i); i < 0 {
			return invalid
		}
		p.keys = append(p.keys, name)
		from, field := i, unescapeBytes(name.of(p.scan.b))
		switch list := i < len(p.scan.b) && p.scan.b[i] == '['; {
		case list && string(field) == p.dialect.listKey():
			p.prelude = listPrelude{p.spans, len(p.keys)}
			i = p.itemList(i)
		case list && (string(field) == "tools" || string(field) == "functions"):
			i = p.toolList(i, 2)
		default:
			i = p.scan.skipValue(i, 1)
		}
		if i > 0 {
			p.recordMember(field, span{from, i})
		}
		i, more = p.scan.nextElement(i, '}')
	}
	return i
}

func (p *parser) recordMember(name []byte, v span) {
	if string(name) == p.dialect.listKey() {
		p.spans.list = v
		return
	}
	switch string(name) {
	case "model":
		p.spans.model = v
	case "generate":
		p.spans.generate = v
	case "metadata":
		p.spans.metadata = v
	case "prompt_cache_key":
		p.spans.cacheKey = v
	case "previous_response_id":
		p.spans.previous = v
	case "conversation":
		p.spans.conversation = v
	case "system", "instructions":
		p.spans.system = v
	case "tools", "functions":
		p.spans.tools = v
	case "response_format", "output_format", "output_config", "text":
		p.spans.format = v
	case "tool_choice":
		p.spans.toolChoice = v
	default:
		if bytes.EqualFold(name, []byte("system")) || bytes.EqualFold(name, []byte("instructions")) {
			p.spans.misspelt = v
		}
	}
}

// toolList scans the tools at i and records the names: {name}, {function:{name}}, {custom:{name}}, and names in a
// namespace. A tool without a name is recorded by type.
func (p *parser) toolList(i, depth int) int {
	i, more := p.scan.firstElement(i, ']', depth)
	for more {
		if !p.countOne() {
			return invalid
		}
		if i < len(p.scan.b) && p.scan.b[i] == '{' {
			before := len(p.tools)
			var name span
			if i, name = p.tool(i, depth+1); len(p.stringAt(name)) > 0 && len(p.tools) == before {
				p.tools = append(p.tools, name)
			}
		} else {
			i = p.scan.skipValue(i, depth)
		}
		i, more = p.scan.nextElement(i, ']')
	}
	return i
}

func (p *parser) tool(i, depth int) (end int, name span) {
	var kind span
	i, more := p.scan.firstElement(i, '}', depth)
	for more {
		var key span
		if key, i = p.scan.key(i); i < 0 {
			return invalid, span{}
		}
		from, field := i, string(unescapeBytes(key.of(p.scan.b)))
		var inner span
		switch {
		case field == "tools" && i < len(p.scan.b) && p.scan.b[i] == '[':
			i = p.toolList(i, depth+1)
		case (field == "function" || field == "custom") && i < len(p.scan.b) && p.scan.b[i] == '{':
			i, inner = p.tool(i, depth+1)
		default:
			i = p.scan.skipValue(i, depth)
		}
		switch {
		case field == "name":
			name = span{from, i}
		case field == "type":
			kind = span{from, i}
		case !inner.empty() && name.empty():
			name = inner
		}
		i, more = p.scan.nextElement(i, '}')
	}
	if name.empty() {
		name = kind
	}
	return i, name
}

func (p *parser) stringAt(v span) []byte {
	if v.end <= 0 || p.scan.b[v.start] != '"' {
		return nil
	}
	return unescapeBytes(v.inner().of(p.scan.b))
}
