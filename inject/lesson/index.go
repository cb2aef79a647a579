package lesson

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"precept/internal/file"
)

// Names of precept's own files in a bank. Load ignores names that start with an underscore.
const (
	IndexFile  = "_index.md"
	LogFile    = "_log.jsonl"
	ArchiveDir = "_archive"
)

// Counts holds a lesson's measured results. The author's claims in the file do not count.
type Counts struct{ Success, Failure int }

// FormatIndex returns a Markdown table with the lessons. If counts is nil, all counts are zero.
func FormatIndex(b *Book, counts func(slug string) Counts) []byte {
	var s strings.Builder
	s.WriteString("| slug | title | outcome | confidence | success_count | failure_count |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, l := range b.lessons {
		var c Counts
		if counts != nil {
			c = counts(l.Slug)
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %d | %d |\n", l.Slug, escapeCell(l.Headline()), l.Outcome,
			strconv.FormatFloat(l.Confidence, 'g', -1, 64), c.Success, c.Failure)
	}
	return []byte(s.String())
}

// ParseIndexCounts returns the counts in an index file, by slug. A writer that has no newer counts passes these to
// FormatIndex again.
func ParseIndexCounts(index []byte) func(slug string) Counts {
	countsBySlug := map[string]Counts{}
	for line := range strings.Lines(string(index)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 6 {
			continue
		}
		successes, err1 := strconv.Atoi(strings.TrimSpace(cells[len(cells)-2]))
		failures, err2 := strconv.Atoi(strings.TrimSpace(cells[len(cells)-1]))
		if err1 == nil && err2 == nil {
			countsBySlug[strings.TrimSpace(cells[0])] = Counts{successes, failures}
		}
	}
	return func(slug string) Counts { return countsBySlug[slug] }
}

func escapeCell(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}

// Event is one line in a bank's audit log.
type Event struct {
	Time   time.Time      `json:"time"`
	Action string         `json:"action"` // "propose", "refuse", "approve", "edit", "cite", "supersede", "archive", ...
	Slug   string         `json:"slug,omitempty"`
	By     string         `json:"by,omitempty"`
	From   State          `json:"from,omitempty"` // previous state; empty for a new lesson
	To     State          `json:"to,omitempty"`   // new state; empty for a deleted lesson
	Hash   string         `json:"content_hash,omitempty"`
	Source string         `json:"source,omitempty"` // program that wrote the lesson; empty for a person
	Tenant string         `json:"tenant,omitempty"`
	Agent  string         `json:"agent,omitempty"`
	Detail map[string]any `json:"detail,omitempty"`
}

// Actions in events that a lesson's measured effect caused. A caution is an approach to avoid.
const (
	BecameCaution = "caution"
	BecameAdvice  = "advice"
)

// Event.Detail keys.
const (
	DetailHandEdit = "by_hand"          // a hand edit: HandEditOutsideGit, HandEditUncommitted, or a commit id
	DetailWith     = "sessions_with"    // rewarded sessions with the lesson
	DetailWithout  = "sessions_without" // rewarded sessions where the lesson was withheld
)

// DetailHandEdit values.
const (
	HandEditOutsideGit  = "file"        // the file is not in a git repository, so the author is unknown
	HandEditUncommitted = "uncommitted" // the edit is not committed yet
)

// AppendLog appends events to a bank's audit log.
func AppendLog(dir string, events ...Event) error {
	var lines []byte
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	err := file.Append(filepath.Join(dir, LogFile), 0o644, lines)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}
