package wire

import (
	"encoding/json"
	"strings"

	"pgregory.net/rapid"
)

// requestGenerator draws request bodies with random items, white space and member order.
type requestGenerator struct{ *rapid.T }

func (g requestGenerator) space() string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r\n"}).Draw(g.T, "space")
}

func (g requestGenerator) string() string {
	s := rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "yes", "run the build", "\"quoted\"", "<system-reminder>x</system-reminder>", "a\nb", "\u00e9\u2028",
			"[LOOP DETECTED] x [END LOOP DETECTED]\n\n", "<system-reminder>", "Lessons from past experience:\n- a\nEnd of lessons.\n\nwords",
		}),
		rapid.String(),
	).Draw(g.T, "string")
	raw, _ := json.Marshal(s)
	if rapid.IntRange(0, 9).Draw(g.T, "odd") == 0 {
		raw = []byte(`"` + rapid.SampledFrom([]string{`\ud800`, `\/`, "\xff\xfe", `\u0041`, `\u0000`}).Draw(g.T, "oddity") + string(raw[1:]))
	}
	return string(raw)
}

func (g requestGenerator) object(members ...string) string {
	kept := members[:0:0]
	for _, m := range members {
		if m != "" {
			kept = append(kept, m)
		}
	}
	for i, m := range rapid.Permutation(kept).Draw(g.T, "order") {
		kept[i] = g.space() + m + g.space()
	}
	return "{" + strings.Join(kept, ",") + "}"
}

func (g requestGenerator) array(n int, element func() string) string {
	var list []string
	for range n {
		list = append(list, g.space()+element()+g.space())
	}
	return "[" + strings.Join(list, ",") + g.space() + "]"
}

// intN draws a number from 0 to n-1.
func (g requestGenerator) intN(n int) int { return rapid.IntRange(0, n-1).Draw(g.T, "n") }

func (g requestGenerator) member(name, value string) string {
	return `"` + name + `"` + g.space() + ":" + g.space() + value
}

func (g requestGenerator) result(typ string) string {
	if g.intN(5) == 0 {
		return "null"
	}
	return g.textOrParts(typ)
}

func (g requestGenerator) textOrParts(typ string) string {
	if g.intN(2) == 0 {
		return g.string()
	}
	return g.array(g.intN(4), func() string {
		if g.intN(4) == 0 {
			return g.object(`"type":"image"`, `"source":{"data":"AAAA"}`)
		}
		return g.object(g.member("type", `"`+typ+`"`), g.member("text", g.string()), rapid.SampledFrom([]string{"", `"cache_control":{"type":"ephemeral"}`}).Draw(g.T, "extra"))
	})
}

func (g requestGenerator) id() string {
	return `"` + rapid.StringMatching(`call_[a-c]`).Draw(g.T, "id") + `"`
}

func (g requestGenerator) chatItem() string {
	switch g.intN(4) {
	case 0:
		return g.object(g.member("role", `"user"`), g.member("content", g.textOrParts("text")))
	case 1:
		return g.object(g.member("role", `"tool"`), g.member("tool_call_id", g.id()), g.member("content", g.result("text")))
	case 2:
		return g.object(g.member("role", `"assistant"`), `"content":null`, g.member("tool_calls", `[{"id":`+g.id()+`,"type":"function","function":{"name":"f","arguments":"{}"}}]`))
	}
	return g.object(g.member("role", `"system"`), g.member("content", g.string()))
}

func (g requestGenerator) responsesItem() string {
	switch g.intN(5) {
	case 0:
		return g.object(g.member("role", `"user"`), g.member("content", g.textOrParts("input_text")))
	case 1:
		return g.object(g.member("type", `"function_call_output"`), g.member("call_id", g.id()), g.member("output", g.result("input_text")))
	case 2:
		return g.object(g.member("type", `"custom_tool_call_output"`), g.member("call_id", g.id()), g.member("output", g.result("input_text")))
	case 3:
		return g.object(g.member("type", `"function_call"`), g.member("call_id", g.id()), `"name":"f"`, g.member("arguments", g.string()))
	}
	return g.object(`"type":"item_reference"`, g.member("id", g.id()))
}

func (g requestGenerator) messagesItem() string {
	switch g.intN(3) {
	case 0:
		return g.object(g.member("role", `"user"`), g.member("content", g.textOrParts("text")))
	case 1:
		return g.object(g.member("role", `"assistant"`), g.member("content", g.array(1, func() string {
			return g.object(`"type":"tool_use"`, g.member("id", g.id()), `"name":"f"`, `"input":{}`)
		})))
	}
	results := g.array(1+g.intN(2), func() string {
		content := ""
		if g.intN(3) > 0 {
			content = g.member("content", g.result("text"))
		}
		return g.object(g.member("type", `"tool_result"`), g.member("tool_use_id", g.id()), content)
	})
	if g.intN(2) == 0 {
		results = strings.TrimSuffix(results, "]") + `,{"type":"text","text":` + g.string() + `}]`
	}
	return g.object(g.member("role", `"user"`), g.member("content", results))
}

func (g requestGenerator) body() (Dialect, string) {
	d := Dialect(1 + g.intN(3))
	item := map[Dialect]func() string{Chat: g.chatItem, Responses: g.responsesItem, Messages: g.messagesItem}[d]
	list := g.array(1+g.intN(5), item)
	system := ""
	if g.intN(2) == 0 {
		system = g.member(map[Dialect]string{Chat: "instructions", Responses: "instructions", Messages: "system"}[d], g.textOrParts(d.partType()))
	}
	if d == Responses && g.intN(5) == 0 {
		list = g.string()
	}
	return d, g.space() + g.object(g.member(d.listKey(), list), system, `"model":"m"`, `"seed":123456789012345678901234567890`, `"x":1E400`) + g.space()
}

func (r *Request) acceptsText(i int, res Result) bool {
	_, ok := r.findPlace(i, res.Block)
	return ok
}

func (g requestGenerator) edits(r *Request, text *rapid.Generator[string]) []Edit {
	var edits []Edit
	for i := range r.Len() {
		it := r.Item(i)
		if it.HasText {
			for range g.intN(3) {
				edits = append(edits, Edit{i, -1, text.Draw(g.T, "text")})
			}
		}
		for _, res := range it.Results {
			if r.acceptsText(i, res) && g.intN(2) == 0 {
				edits = append(edits, Edit{i, res.Block, text.Draw(g.T, "text")})
			}
		}
	}
	return rapid.Permutation(edits).Draw(g.T, "edits")
}
