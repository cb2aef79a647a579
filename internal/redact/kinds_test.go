package redact

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/SAMPLES.md") //nolint:gochecknoglobals // a flag of the tests

// want returns the expected result of an example: the input itself for an empty out.
func (x example) want() string {
	if x.out == "" {
		return x.in
	}
	return x.out
}

func TestKindExamplesAreRedacted(t *testing.T) {
	for k, row := range kindTable() {
		hasExample := kind(k) == none || kind(k) == fragment // the scan finds neither of these kinds
		for _, x := range row.examples {
			got := New(true).Text(x.in)
			if got != x.want() {
				t.Errorf("%s: Text(%q)\n got %q\nwant %q", row.name, x.in, got, x.want())
			}
			if twice := New(true).Text(got); twice != got {
				t.Errorf("%s: a second redaction changes %q to %q, want no change", row.name, got, twice)
			}
			secretsOnly := New(false).Text(x.in)
			if redacted := secretsOnly != x.in; redacted != (x.out != "" && !row.personal) {
				t.Errorf("%s: without personal data %q becomes %q, want a change = %v", row.name, x.in, secretsOnly, x.out != "" && !row.personal)
			}
			hasExample = hasExample || strings.Contains(x.out, Placeholder+row.name+":1]")
		}
		if !hasExample {
			t.Errorf("kind %s has no redacted example, want at least one", row.name)
		}
	}
}

// A prefix is the beginning of a vendor's keys. An anchor is a byte at which the scan looks for a value. Without any
// one of them, at least one example is redacted differently.
func TestEveryAnchorAndPrefixIsNeeded(t *testing.T) {
	needed := func(change func(*[kindCount]kindRow), texts []example) bool {
		rows := kindTable()
		change(&rows)
		less := compile(rows)
		return slices.ContainsFunc(texts, func(x example) bool {
			r := New(true)
			r.m.table = less
			return r.Text(x.in) != x.want()
		})
	}
	var all []example
	for k, row := range kindTable() {
		all = append(all, row.examples...)
		for i, p := range row.prefixes {
			body := p.bodyStart + strings.Repeat(alnum36, 4)
			if p.class == hexByte {
				body = hex32 + hex32
			}
			if p.uuid {
				body = "a1b2c3d4-0a1b-4c3d-8e5f-60718293a4b5"
			}
			shortest, tooShort := p.text+body[:p.minBytes]+" ", p.text+body[:p.minBytes-1]+" "
			examples := []example{{in: shortest, out: Placeholder + row.name + ":1] "}, {in: tooShort}}
			for _, x := range examples {
				if got := New(true).Text(x.in); got != x.want() {
					t.Errorf("%q becomes %q, want %q", x.in, got, x.want())
				}
			}
			if !needed(func(rows *[kindCount]kindRow) {
				rows[k].prefixes = slices.Delete(slices.Clone(rows[k].prefixes), i, i+1)
			}, append(examples, row.examples...)) {
				t.Errorf("%s: no example changes without prefix %q, want at least one", row.name, p.text+p.bodyStart)
			}
		}
	}
	for _, row := range kindTable() {
		for _, a := range row.anchors {
			if !needed(func(rows *[kindCount]kindRow) {
				for k := range rows {
					rows[k].anchors = slices.DeleteFunc(slices.Clone(rows[k].anchors), func(b anchor) bool { return a.name == b.name })
				}
			}, all) {
				t.Errorf("%s: no example changes without anchor %q, want at least one", row.name, a.name)
			}
		}
	}
}

// The table in docs/SAMPLES.md lists the kinds. go test ./internal/redact -run Docs -update writes the table.
func TestDocsTableMatchesTheKinds(t *testing.T) {
	const file, begin, end = "../../docs/SAMPLES.md", "<!-- kinds: go test ./internal/redact -run Docs -update -->\n", "<!-- end of kinds -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no table between %q and %q, want one", file, begin, end)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+docsTable()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != docsTable() {
		t.Errorf("the table in %s differs from kindTable, want this table (go test ./internal/redact -run Docs -update writes it):\n%s",
			file, docsTable())
	}
}

// docsTable returns the table of the documentation: secrets first, with the first example of each kind.
func docsTable() string {
	var b strings.Builder
	b.WriteString("| kind | detected text | example | result |\n|---|---|---|---|\n")
	for _, personal := range []bool{false, true} {
		for k, row := range kindTable() {
			if kind(k) == none || row.personal != personal {
				continue
			}
			in, out := "", "`"+Placeholder+row.name+":1]`"
			if len(row.examples) > 0 {
				in, out = "`"+shortened(row.examples[0].in)+"`", "`"+shortened(row.examples[0].out)+"`"
			}
			name := row.name
			if personal {
				name += " (personal)"
			}
			b.WriteString("| " + name + " | " + row.description + " | " + in + " | " + out + " |\n")
		}
	}
	return b.String()
}

// shortened cuts long words, so that a page contains no whole key.
func shortened(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return regexp.MustCompile(`([A-Za-z0-9_+/-]{12})[A-Za-z0-9_+/-]{6,}`).ReplaceAllString(s, "$1…")
}
