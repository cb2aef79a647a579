package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"precept/internal/redact"
)

// The types of a failure.
const (
	TypeLint     = "lint"
	TypeTest     = "test"
	TypeAnalysis = "static-analysis"
)

// The bounds of an entry, in characters. An error may be longer: it is cut.
const (
	MaxSummary = 500
	maxField   = 4096
	maxFile    = 1024
	maxIntent  = 200
	maxInput   = 8 << 20 // bytes of one entry as JSON
)

// Entry is one failure and what was learned from it, by the contract
// docs/contracts/record.schema.json.
type Entry struct {
	IntentID   string `json:"intent_id"`
	Type       string `json:"type"`
	File       string `json:"file"`
	Error      string `json:"error"`
	Cause      string `json:"cause"`
	Resolution string `json:"resolution"`
	Rule       string `json:"rule"`
}

// Decode reads one entry as JSON, strictly: what is unknown, missing, twice there or out of bounds
// is refused, all of it at once.
func Decode(r io.Reader) (Entry, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return Entry{}, fmt.Errorf("read the entry: %w", err)
	}
	if len(raw) > maxInput {
		return Entry{}, errors.New("the entry has more than 8 MiB; shorten its error")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return Entry{}, errors.New(`there is nothing on standard input; write {"intent_id": "...", "type": "test", ...} to it`)
	}
	given, err := members(raw)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	var faults []error
	fields := e.fields()
	for _, m := range given {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == m.key })
		if at < 0 {
			faults = append(faults, fmt.Errorf("%q is no field of an entry; remove it (the fields are %s)", m.key, strings.Join(names(), ", ")))
			continue
		}
		switch text := fields[at].text; {
		case *text != "":
			faults = append(faults, fmt.Errorf("%s stands there twice; remove one", m.key))
		case json.Unmarshal(m.value, text) != nil || m.value[0] != '"':
			faults = append(faults, fmt.Errorf("%s is not a string; put it in quotes", m.key))
			*text = string(m.value) // so that it is not missing, too
		}
	}
	return e, errors.Join(append(faults, e.Validate())...)
}

// member is one key of a JSON object with its raw value.
type member struct {
	key   string
	value json.RawMessage
}

// members reads an object without losing a key that is there twice, which a struct or a map would.
func members(raw []byte) ([]member, error) {
	bad := func(err error) error { return fmt.Errorf("the entry is not one JSON object: %w", err) }
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, bad(cmp.Or(err, errors.New("it does not begin with {")))
	}
	var out []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, bad(err)
		}
		m := member{}
		m.key, _ = t.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, bad(err)
		}
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, bad(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad(errors.New("something follows it; send one entry at a time"))
	}
	return out, nil
}

// field is one field of an entry: its name in the contract, its label in the ledger, and how many
// characters it may have.
type field struct {
	name, label string
	most        int
	text        *string
}

// fields are an entry's, in the order of the contract.
func (e *Entry) fields() []field {
	return []field{
		{"intent_id", "Intent ID", maxIntent, &e.IntentID},
		{"type", labelType, maxField, &e.Type},
		{"file", "File", maxFile, &e.File},
		{"error", "Error Summary", maxInput, &e.Error},
		{"cause", "Cause", maxField, &e.Cause},
		{"resolution", "Resolution", maxField, &e.Resolution},
		{"rule", "Corrective Rule", maxField, &e.Rule},
	}
}

// names are the fields' names, in their order.
func names() []string {
	var out []string
	for _, f := range new(Entry).fields() {
		out = append(out, f.name)
	}
	return out
}

// Validate tells everything that keeps an entry from being recorded.
func (e *Entry) Validate() error {
	var faults []error
	for _, f := range e.fields() {
		switch n := utf8.RuneCountInString(*f.text); {
		case line(*f.text) == "":
			faults = append(faults, fmt.Errorf("%s is missing; every field of an entry is needed", f.name))
		case n > f.most:
			faults = append(faults, fmt.Errorf("%s has %d characters; write at most %d", f.name, n, f.most))
		}
	}
	if e.Type != "" && !slices.Contains([]string{TypeLint, TypeTest, TypeAnalysis}, e.Type) {
		faults = append(faults, fmt.Errorf("type is %q; write lint, test or static-analysis", e.Type))
	}
	return errors.Join(faults...)
}

// folded is the entry as it is written: one line a field, without secrets, the error no longer than
// it may be.
func (e *Entry) folded() Entry {
	redact := redact.New(true)
	clean := func(s string) string { return line(redact.Text(s)) }
	// A placeholder is numbered as it appears: what names the failure comes first, so that it is
	// the same next time.
	out := Entry{Type: e.Type, File: clean(e.File), Error: Summary(redact.Text(e.Error))}
	out.IntentID, out.Cause, out.Resolution, out.Rule = clean(e.IntentID), clean(e.Cause), clean(e.Resolution), clean(e.Rule)
	return out
}

// Summary is an error as an entry shows it: one line of at most 500 characters, and three dots
// where it was cut.
func Summary(text string) string { return shortened(line(text), MaxSummary) }

// shortened is a text of at most n characters, and three dots where it was cut.
func shortened(s string, n int) string {
	if short := clip(s, n); short != s {
		return short + "..."
	}
	return s
}

// redacted is a text without secrets and personal data.
func redacted(s string) string { return redact.New(true).Text(s) }

// signature names a failure: the same file and the same error summary are the same failure.
func (e *Entry) signature() string {
	sum := sha256.Sum256([]byte(e.File + "\x00" + e.Error))
	return hex.EncodeToString(sum[:])
}

// labelType stands in an entry's first line, behind the time.
const labelType = "Failure Type"

// render writes a folded entry as one bullet. The same entry at the same time is the same bytes.
func (e *Entry) render(at time.Time, eol string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- [%s] **%s:** %s%s", at.UTC().Format(time.RFC3339), labelType, e.Type, eol)
	for _, f := range e.fields() {
		if f.label != labelType {
			b.WriteString(f.bullet(eol))
		}
	}
	return b.String()
}

func (f field) bullet(eol string) string {
	text := *f.text
	if f.name == "file" {
		text = codeSpan(text)
	}
	return "    - **" + f.label + ":** " + text + eol
}

// key is the two lines by which an entry is found again: its file and its error.
func (e *Entry) key(eol string) string {
	f := e.fields()
	return f[2].bullet(eol) + f[3].bullet(eol)
}

// codeSpan quotes a path as Markdown code, whatever backticks stand in it.
func codeSpan(s string) string {
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// line folds a text that somebody else wrote to one line: no control, hidden or escape characters,
// white space folded, and nothing that would hide the rest of the file from its readers.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs):
			return -1
		}
		return r
	}, plain(strings.ToValidUTF8(s, "")))
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "<!--", "&lt;!--")
}

var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?") //nolint:gochecknoglobals // immutable

// plain takes terminal escape sequences out.
func plain(s string) string {
	return escapes.ReplaceAllString(s, "")
}
