package distill

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

type arguments struct {
	raw    string
	object map[string]any // arguments by parameter name; nil if raw is not a JSON object
}

func parseArguments(raw string) arguments {
	a := arguments{raw: strings.TrimSpace(raw)}
	_ = json.Unmarshal([]byte(a.raw), &a.object) // stays nil if raw is other JSON or plain text
	return a
}

// difference holds the names of parameters that differ between two calls.
type difference struct{ added, removed, changed []string }

func (d *difference) size() int { return len(d.added) + len(d.removed) + len(d.changed) }

func diffArguments(earlier, later *arguments) difference {
	var d difference
	for _, k := range slices.Sorted(maps.Keys(later.object)) {
		old, ok := earlier.object[k]
		switch {
		case !ok:
			d.added = append(d.added, k)
		case jsonText(old) != jsonText(later.object[k]):
			d.changed = append(d.changed, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(earlier.object)) {
		if _, ok := later.object[k]; !ok {
			d.removed = append(d.removed, k)
		}
	}
	return d
}

func sameArguments(a, b *arguments) bool {
	if a.object != nil && b.object != nil {
		d := diffArguments(a, b)
		return d.size() == 0
	}
	return a.raw == b.raw
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func plainText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return jsonText(v)
}

// distinctiveValues returns texts and numbers of at least four bytes, at most four levels deep.
func (a *arguments) distinctiveValues() []string {
	var out []string
	var walk func(v any, depth int)
	walk = func(v any, depth int) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if depth < 4 {
					walk(v[k], depth+1)
				}
			}
		case []any:
			for _, e := range v {
				if depth < 4 {
					walk(e, depth+1)
				}
			}
		case string:
			if t := strings.TrimSpace(v); len(t) >= 4 && len(t) < 400 {
				out = append(out, t)
			}
		case float64:
			if t := jsonText(v); len(t) >= 4 {
				out = append(out, t)
			}
		}
	}
	walk(map[string]any(a.object), 0)
	return out
}

func shareValue(a, b *arguments) bool {
	have := map[string]bool{}
	for _, v := range a.distinctiveValues() {
		have[v] = true
	}
	return slices.ContainsFunc(b.distinctiveValues(), func(v string) bool { return have[v] })
}
