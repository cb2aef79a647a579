package distill

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/lesson"
)

// opinionKeyPrefix is the prefix of the keys of the notes that store the sums of opinions. There is one note for each
// text of a lesson. A report reads these sums, because the marks of a million sessions would take too long to read.
const opinionKeyPrefix = "opinion|"

// textNames holds the names of the texts that a session got (report.TextKey), by the slug of the lesson. A lesson gets
// a new text with each edit.
type textNames map[string]string

// textOf returns the name of the text that a session got. An arm that is only a slug does not name a text. For such an
// arm, the result is the name of the current text of the lesson.
func textOf(arm trial.Arm, l *lesson.Lesson) string {
	if arm == "" || arm.Slug() == string(arm) {
		return l.Slug + "@" + l.ArmHash()
	}
	return report.TextKey(arm)
}

// NoteReader reads the distiller's notes of a tenant.
type NoteReader interface {
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
}

// ReadOpinions returns the sums of the judges' opinions about the lessons of a tenant, by the name of the text
// (report.TextKey).
func ReadOpinions(ctx context.Context, notes NoteReader, tenant string) (map[string]report.Opinions, error) {
	all := map[string]report.Opinions{}
	err := notes.EachNote(ctx, tenant, opinionKeyPrefix, func(key string, data []byte) error {
		var o report.Opinions
		if json.Unmarshal(data, &o) == nil { // unreadable notes are replaced
			all[strings.TrimPrefix(key, opinionKeyPrefix)] = o
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the judges' opinions: %w", err)
	}
	return all, nil
}

// opinionSums holds the sums of the opinions about the lessons of a tenant, by the name of the text.
type opinionSums struct {
	all     map[string]report.Opinions
	changed map[string]bool // names of the texts whose sums changed since the last write
}

// recount replaces the opinions of the last mark of a session by the opinions of the next mark, so that a session that
// continues counts only once.
func (s *opinionSums) recount(last, next *judgeMark) {
	s.count(last, -1)
	s.count(next, 1)
}

// count adds each opinion of a mark n times to the sums of its text. n is -1 to remove the opinions.
func (s *opinionSums) count(m *judgeMark, n int64) {
	for slug, opinion := range m.Opinions {
		text := m.Texts[slug]
		if text == "" { // the opinion was never summed
			continue
		}
		o := s.all[text]
		o.Add(opinion, n)
		s.all[text] = o
		if s.changed == nil {
			s.changed = map[string]bool{}
		}
		s.changed[text] = true
	}
}

// write adds the changed sums to the notes that are to be stored.
func (s *opinionSums) write(notes map[string][]byte) error {
	for text := range s.changed {
		data, err := json.Marshal(s.all[text])
		if err != nil {
			return fmt.Errorf("write the opinions of %s: %w", text, err)
		}
		notes[opinionKeyPrefix+text] = data
	}
	return nil
}
