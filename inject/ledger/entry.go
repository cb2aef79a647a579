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

// Failure types.
const (
	TypeLint     = "lint"
	TypeTest     = "test"
	TypeAnalysis = "static-analysis"
)

// Limits in characters. Record truncates a longer error.
const (
	MaxSummary = 500 // error
	maxField   = 4096
	maxFile    = 1024
	maxIntent  = 200
	maxInput   = 8 << 20 // bytes, as JSON
)

// Entry is a failure with the lesson learned from it (docs/contracts/record.schema.json).
type Entry struct {
	IntentID   string `json:"intent_id"`
	Type       string `json:"type"`
	File       string `json:"file"`
	Error      string `json:"error"`
	Cause      string `json:"cause"`
	Resolution string `json:"resolution"`
	Rule       string `json:"rule"`
}

// Decode reads one entry as JSON, and reports all faults together: unknown, missing, duplicate and long fields.
func Decode(r io.Reader) (Entry, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return Entry{}, fmt.Errorf("read the entry: %w", err)
	}
	if len(raw) > maxInput {
		return Entry{}, errors.New("the entry has more than 8 MiB; shorten the error")
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return Entry{}, errors.New(`standard input is empty; write {"intent_id": "...", "type": "test", ...} to standard input`)
	}
	givenMembers, err := members(raw)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	var faults []error
	fields := e.fields()
	for _, m := range givenMembers {
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == m.key })
		if at < 0 {
			faults = append(faults, fmt.Errorf("%q is not an entry field; remove it (the fields are %s)", m.key, strings.Join(names(), ", ")))
			continue
		}
		switch text := fields[at].text; {
		case *text != "":
			faults = append(faults, fmt.Errorf("%s appears twice; remove one", m.key))
		case json.Unmarshal(m.value, text) != nil || m.value[0] != '"':
			faults = append(faults, fmt.Errorf("%s is not a string; put it in quotes", m.key))
			*text = string(m.value) // so that Validate does not report the field as missing
		}
	}
	return e, errors.Join(append(faults, e.Validate())...)
}

type member struct {
	key   string
	value json.RawMessage
}

// members returns a JSON object's members. It keeps duplicate keys, unlike a struct or a map.
func members(raw []byte) ([]member, error) {
	wrapErr := func(err error) error { return fmt.Errorf("the entry is not one JSON object: %w", err) }
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, wrapErr(cmp.Or(err, errors.New("the text does not begin with {")))
	}
	var out []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, wrapErr(err)
		}
		m := member{}
		m.key, _ = t.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, wrapErr(err)
		}
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, wrapErr(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, wrapErr(errors.New("text follows the entry; send one entry at a time"))
	}
	return out, nil
}

// field is a field of an entry: the key in the contract, and the text in the ledger.
type field struct {
	name, label string
	maxChars    int
	text        *string
}

// fields returns the fields in contract order.
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

func names() []string {
	var out []string
	for _, f := range new(Entry).fields() {
		out = append(out, f.name)
	}
	return out
}

// Validate returns all faults.
func (e *Entry) Validate() error {
	var errs []error
	for _, f := range e.fields() {
		switch n := utf8.RuneCountInString(*f.text); {
		case singleLine(*f.text) == "":
			errs = append(errs, fmt.Errorf("%s is missing or empty; an entry needs every field", f.name))
		case n > f.maxChars:
			errs = append(errs, fmt.Errorf("%s has %d characters; write at most %d", f.name, n, f.maxChars))
		}
	}
	if e.Type != "" && !slices.Contains([]string{TypeLint, TypeTest, TypeAnalysis}, e.Type) {
		errs = append(errs, fmt.Errorf("type is %q; write lint, test or static-analysis", e.Type))
	}
	return errors.Join(errs...)
}

// sanitize returns the entry as it is written: with each field on one line, without secrets, and with the error
// truncated.
func (e *Entry) sanitize() Entry {
	redactor := redact.New(true)
	clean := func(s string) string { return singleLine(redactor.Text(s)) }
	// The redactor numbers placeholders in the order of the texts. File and error come first, so that equal failures
	// get equal numbers.
	out := Entry{Type: e.Type, File: clean(e.File), Error: Summary(redactor.Text(e.Error))}
	out.IntentID, out.Cause, out.Resolution, out.Rule = clean(e.IntentID), clean(e.Cause), clean(e.Resolution), clean(e.Rule)
	return out
}

// Summary returns an error on one line with at most 500 characters.
func Summary(text string) string { return truncate(singleLine(text), MaxSummary) }

func truncate(s string, n int) string {
	if short := clip(s, n); short != s {
		return short + "..."
	}
	return s
}

func redactText(s string) string { return redact.New(true).Text(s) }

// signature identifies a failure: SHA-256 of file and error summary.
func (e *Entry) signature() string {
	sum := sha256.Sum256([]byte(e.File + "\x00" + e.Error))
	return hex.EncodeToString(sum[:])
}

// labelType is the label after the time in an entry's first line.
const labelType = "Failure Type"

// render returns the entry's text. Equal entries with equal times give equal bytes.
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

// identifyingLines returns the lines that identify a failure: file and error.
func (e *Entry) identifyingLines(eol string) string {
	f := e.fields()
	return f[2].bullet(eol) + f[3].bullet(eol)
}

// codeSpan encloses a path in more backticks than the path has in a row.
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

// singleLine folds white space, and drops control, hidden and escape characters. It escapes the start of an HTML
// comment, because a comment would hide the rest of the file.
func singleLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs):
			return -1
		}
		return r
	}, stripEscapes(strings.ToValidUTF8(s, "")))
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "<!--", "&lt;!--")
}

var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?") //nolint:gochecknoglobals // immutable

func stripEscapes(s string) string {
	return escapes.ReplaceAllString(s, "")
}
