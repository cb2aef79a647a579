package redact

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/SAMPLES.md") //nolint:gochecknoglobals // a test flag

// want returns the expected redaction. An empty out means that the input must not change.
func (e example) want() string {
	if e.out == "" {
		return e.in
	}
	return e.out
}

func TestKindExamplesAreRedacted(t *testing.T) {
	for k, row := range kindTable() {
		hasExample := kind(k) == noKind || kind(k) == fragment // no scan finds these two kinds
		for _, x := range row.examples {
			got := New(true).Text(x.in)
			if got != x.want() {
				t.Errorf("%s: Text(%q)\n got %q\nwant %q", row.name, x.in, got, x.want())
			}
			if twice := New(true).Text(got); twice != got {
				t.Errorf("%s: second redaction: Text(%q) = %q, want it unchanged", row.name, got, twice)
			}
			secretsOnly := New(false).Text(x.in)
			if redacted := secretsOnly != x.in; redacted != (x.out != "" && !row.personal) {
				t.Errorf("%s: redactor for secrets only: Text(%q) = %q, want a change: %v", row.name, x.in, secretsOnly, x.out != "" && !row.personal)
			}
			hasExample = hasExample || strings.Contains(x.out, Placeholder+row.name+":1]")
		}
		if !hasExample {
			t.Errorf("kind %s has no redacted example", row.name)
		}
	}
}

// An anchor is a byte at which the redactor looks for a value. A prefix begins a vendor's keys.
func TestEachAnchorAndPrefixIsNeeded(t *testing.T) {
	isNeeded := func(change func(*[kindCount]kindRow), texts []example) bool {
		rows := kindTable()
		change(&rows)
		reduced := compile(rows)
		return slices.ContainsFunc(texts, func(x example) bool {
			r := New(true)
			r.m.table = reduced
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
			if p.isUUID {
				body = "a1b2c3d4-0a1b-4c3d-8e5f-60718293a4b5"
			}
			shortest, tooShort := p.text+body[:p.minBytes]+" ", p.text+body[:p.minBytes-1]+" "
			examples := []example{{in: shortest, out: Placeholder + row.name + ":1] "}, {in: tooShort}}
			for _, x := range examples {
				if got := New(true).Text(x.in); got != x.want() {
					t.Errorf("Text(%q) = %q, want %q", x.in, got, x.want())
				}
			}
			if !isNeeded(func(rows *[kindCount]kindRow) {
				rows[k].prefixes = slices.Delete(slices.Clone(rows[k].prefixes), i, i+1)
			}, append(examples, row.examples...)) {
				t.Errorf("%s: the examples have the same result without the prefix %q, want an example that needs the prefix", row.name, p.text+p.bodyStart)
			}
		}
	}
	for _, row := range kindTable() {
		for _, a := range row.anchors {
			if !isNeeded(func(rows *[kindCount]kindRow) {
				for k := range rows {
					rows[k].anchors = slices.DeleteFunc(slices.Clone(rows[k].anchors), func(b anchor) bool { return a.name == b.name })
				}
			}, all) {
				t.Errorf("%s: the examples have the same result without the anchor %q, want an example that needs the anchor", row.name, a.name)
			}
		}
	}
}

// The command go test ./internal/redact -run Docs -update writes the table.
func TestDocsTableMatchesTheKinds(t *testing.T) {
	const file, begin, end = "../../docs/SAMPLES.md", "<!-- kinds: go test ./internal/redact -run Docs -update -->\n", "<!-- end of kinds -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, opened := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s lacks the table between %q and %q", file, begin, end)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+docsTable()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != docsTable() {
		t.Errorf("the table in %s differs from kindTable; run go test ./internal/redact -run Docs -update; want\n%s",
			file, docsTable())
	}
}

// JSON does not scan short words, so no vendor's key may be one.
func TestShortWordsMatchNoKind(t *testing.T) {
	for _, row := range kindTable() {
		for _, p := range row.prefixes {
			word := (p.text + strings.Repeat("aBcDeFgH", 2))[:maxShortWord]
			if got := New(true).Text(word); isShortWord([]byte(word)) && got != word {
				t.Errorf("Text(%q) = %q, want the short word unchanged", word, got)
			}
		}
	}
}

// docsTable returns a table with secrets and then personal data, with each kind's first example.
func docsTable() string {
	var b strings.Builder
	b.WriteString("| kind | detected text | example | result |\n|---|---|---|---|\n")
	for _, personal := range []bool{false, true} {
		for k, row := range kindTable() {
			if kind(k) == noKind || row.personal != personal {
				continue
			}
			in, out := "", "`"+Placeholder+row.name+":1]`"
			if len(row.examples) > 0 {
				in, out = "`"+shortenWords(row.examples[0].in)+"`", "`"+shortenWords(row.examples[0].out)+"`"
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

// shortenWords shortens long words, so that the table contains no whole key.
func shortenWords(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return regexp.MustCompile(`([A-Za-z0-9_+/-]{12})[A-Za-z0-9_+/-]{6,}`).ReplaceAllString(s, "$1…")
}
