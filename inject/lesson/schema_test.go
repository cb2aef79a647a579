package lesson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

func compileSchema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("testdata/LESSON.schema.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func frontmatterJSON(tb testing.TB, raw string) any {
	tb.Helper()
	front, _, ok := splitFrontmatter(raw)
	if !ok {
		tb.Fatal("file has no frontmatter")
	}
	js, err := yaml.YAMLToJSON([]byte(front))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func validFrontmatter() map[string]any {
	return map[string]any{
		"schema": "learning/v1", "slug": "do-this", "title": "Do this.",
		"trigger": map[string]any{
			"description": "When that.", "tags": []any{"one-tag", "two"},
			"targets":  []any{map[string]any{"operator": "coder*"}},
			"metadata": map[string]any{"acme": map[string]any{"x": 1.0}},
		},
		"outcome":    "mixed",
		"evidence":   []any{map[string]any{"kind": "run", "ref": "r-1", "note": "n"}},
		"confidence": 0.5, "success_count": 1.0, "failure_count": 0.0,
		"supersedes": []any{"old-one"}, "expires_at": "2031-01-01T00:00:00Z",
		"metadata": map[string]any{"acme": map[string]any{"y": "z"}},
	}
}

// formatLessonFile returns a lesson file with v as the frontmatter. The frontmatter is JSON, which is valid YAML.
func formatLessonFile(tb testing.TB, v any) string {
	tb.Helper()
	js, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return "---\n" + string(js) + "\n---\n\n## What to do\n\nDo it.\n"
}

// mutation sets a field; a nil value deletes it.
type mutation struct {
	path  []any
	value any
}

func (m mutation) apply(v any) any {
	if len(m.path) == 0 {
		return m.value
	}
	rest := mutation{m.path[1:], m.value}
	switch key := m.path[0].(type) {
	case string:
		obj, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if len(rest.path) == 0 && m.value == nil {
			delete(obj, key)
		} else {
			obj[key] = rest.apply(obj[key])
		}
		return obj
	default:
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return v
		}
		list[0] = rest.apply(list[0])
		return list
	}
}

func mutations() []mutation {
	long := func(n int) string { return strings.Repeat("a", n) }
	many := make([]any, 13)
	for i := range many {
		many[i] = fmt.Sprintf("t%d", i)
	}
	paths := [][]any{
		{"schema"},
		{"slug"},
		{"title"},
		{"trigger"},
		{"trigger", "description"},
		{"trigger", "tags"},
		{"trigger", "tags", 0},
		{"trigger", "targets"},
		{"trigger", "targets", 0},
		{"trigger", "targets", 0, "operator"},
		{"trigger", "targets", 0, "who"},
		{"trigger", "metadata"},
		{"trigger", "when"},
		{"outcome"},
		{"evidence"},
		{"evidence", 0},
		{"evidence", 0, "kind"},
		{"evidence", 0, "ref"},
		{"evidence", 0, "note"},
		{"evidence", 0, "when"},
		{"confidence"},
		{"success_count"},
		{"failure_count"},
		{"supersedes"},
		{"supersedes", 0},
		{"expires_at"},
		{"metadata"},
		{"author"},
	}
	values := []any{
		nil, true, 0.0, 1.0, -1.0, 0.5, 1.5, 3.0, "", "a", "ab", "a-", "A-b", "a b", "9a", "a-b", "success", "learning/v1", "learning/v2", "run",
		"blog", "2031-01-01", "2031-01-01T00:00:00Z", "2031-13-01T00:00:00Z", "2031-01-01t00:00:00+02:00", long(80), long(81), long(200), long(201), long(256), long(257),
		long(500), long(501), long(1000), long(1001), strings.Repeat("ü", 200),
		[]any{},
		[]any{"a"},
		[]any{"Ab"},
		[]any{1.0},
		many,
		map[string]any{},
		map[string]any{"x": "y"},
		[]any{map[string]any{}},
		[]any{map[string]any{"role": "r"}},
		[]any{map[string]any{"kind": "audit", "ref": "x"}},
	}
	var out []mutation
	for _, p := range paths {
		for _, v := range values {
			out = append(out, mutation{p, v})
		}
	}
	return out
}

func TestParseAgreesWithSchemaOnOneMutation(t *testing.T) {
	schema := compileSchema(t)
	refused := 0
	for _, m := range mutations() {
		v := m.apply(validFrontmatter())
		want := schema.Validate(roundTripJSON(t, v))
		_, err := Parse("do-this.md", []byte(formatLessonFile(t, v)))
		if (want == nil) != (err == nil) {
			t.Errorf("%v set to %v: got schema error %v and Parse error %v, want two errors or none", m.path, m.value, want, err)
		}
		if want != nil {
			refused++
		}
	}
	if refused < 500 {
		t.Errorf("schema refuses %d mutations, want at least 500", refused)
	}
}

func TestParseAgreesWithSchemaOnManyMutations(t *testing.T) {
	schema, all := compileSchema(t), mutations()
	rapid.Check(t, func(rt *rapid.T) {
		v := any(validFrontmatter())
		for _, m := range rapid.SliceOfN(rapid.SampledFrom(all), 1, 4).Draw(rt, "mutations") {
			v = m.apply(v)
		}
		v = roundTripJSON(t, v)
		want := schema.Validate(v)
		_, err := Parse("do-this.md", []byte(formatLessonFile(t, v)))
		if (want == nil) != (err == nil) {
			rt.Fatalf("%v: got schema error %v and Parse error %v, want two errors or none", v, want, err)
		}
	})
}

func roundTripJSON(tb testing.TB, v any) any {
	tb.Helper()
	js, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(js))
	if err != nil {
		tb.Fatal(err)
	}
	return out
}
