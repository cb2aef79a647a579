package ledger

import (
	"slices"
	"strings"
	"time"
)

// Dated is an entry as it stands in a ledger.
type Dated struct {
	Entry
	At time.Time // zero when what stands there is no time
}

// Entries reads what stands in the section of a ledger, oldest first. What a person wrote there in
// another form, and an entry that lacks its file, error or rule, is passed over.
func Entries(text []byte) []Dated {
	s := find(text)
	var out []Dated
	var open *Dated
	for raw := range strings.Lines(string(text[s.start:s.end])) {
		content := strings.TrimRight(raw, " \t\r\n")
		if rest, ok := strings.CutPrefix(content, "- ["); ok {
			open = nil
			if at, kind, ok := strings.Cut(rest, "] **"+labelType+":** "); ok {
				t, _ := time.Parse(time.RFC3339, at)
				out = append(out, Dated{Entry{Type: kind}, t})
				open = &out[len(out)-1]
			}
			continue
		}
		if content != "" && !strings.HasPrefix(content, " ") && !strings.HasPrefix(content, "\t") {
			open = nil
		}
		if open == nil {
			continue
		}
		label, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(content), "- **"), ":** ")
		for _, f := range open.fields() {
			if f.label == label && *f.text == "" {
				*f.text = strings.ReplaceAll(strings.TrimSpace(value), "&lt;!--", "<!--")
			}
		}
	}
	for i := range out {
		out[i].File = strings.Trim(out[i].File, "` ")
	}
	return slices.DeleteFunc(out, func(d Dated) bool { return d.File == "" || d.Error == "" || d.Rule == "" })
}
