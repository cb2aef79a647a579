package distill

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"precept/sample"
)

func TestScratch(t *testing.T) {
	file := os.Getenv("SCRATCH")
	if file == "" {
		t.Skip()
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	known, _ := knownFailures()
	cases := map[string]*Case{}
	for sc.Scan() {
		var d struct {
			Source, ID string
			Messages   []json.RawMessage
		}
		if err := json.Unmarshal(sc.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		s := Session{ID: d.Source + "/" + d.ID, Agent: d.Source}
		s.Content.Exchanges = []sample.Exchange{{New: d.Messages, Turn: 1, Outcome: "complete"}}
		for _, m := range all(read(&s), known) {
			c := cases[m.Key]
			if c == nil {
				cases[m.Key] = &m.Case
				continue
			}
			c.add(&m.Case)
		}
	}
	var list []*Case
	for _, c := range cases {
		list = append(list, c)
	}
	ds := drafts(list, known)
	if os.Getenv("CASES") != "" {
		for _, c := range list {
			b, _ := json.Marshal(c.Fixes)
			if len(b) > 300 {
				b = b[:300]
			}
			fmt.Printf("CASE %s | %q n=%d mended=%d stubborn=%d most=%d %s\n", c.Key, c.Show, c.Sessions, c.Mended, c.Stubborn, c.Most, b)
		}
	}
	for _, d := range ds {
		fmt.Printf("## %s (%d)\n   %s\n   when: %s\n", d.Slug, d.Sightings, d.Title, d.Applies)
		for _, a := range d.Advice {
			fmt.Println("   -", a)
		}
		fmt.Printf("   errors %q tools %q\n", d.Errors, d.Tools)
	}
}

func all(r *reading, list []known) []*met { return append(r.failures(list), r.taught()...) }
