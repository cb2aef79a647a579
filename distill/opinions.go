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

// opinionKeyPrefix is the prefix of the keys for notes with opinion sums. There is one note for each text of a lesson.
// A report reads these sums, because it would take too long to read the marks of a million sessions.
const opinionKeyPrefix = "opinion|"

// textNames maps a slug to the key of the lesson text that a session got (report.TextKey). An edited lesson has a new
// key.
type textNames map[string]string

// textKey returns the key for the lesson text in an arm (a lesson with a text and a presentation). If an older release
// stored only the slug, the result is the key for the current text.
func textKey(arm trial.Arm, l *lesson.Lesson) string {
	if arm == "" || arm.Slug() == string(arm) {
		return l.Slug + "@" + l.ArmHash()
	}
	return report.TextKey(arm)
}

// NoteReader reads a tenant's distiller notes.
type NoteReader interface {
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
}

// ReadOpinions returns the judges' opinion sums, by text name (report.TextKey).
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

// opinionSums holds opinion sums, by text.
type opinionSums struct {
	all     map[string]report.Opinions
	changed map[string]bool // texts with sums not yet written
}

// recount replaces the opinions that were counted for a session by the newest ones, so that a continued session counts
// once.
func (s *opinionSums) recount(last, next *judgeMark) {
	s.count(last, -1)
	s.count(next, 1)
}

// count adds each of a session's opinions n times. If n is -1, count removes the opinions.
func (s *opinionSums) count(m *judgeMark, n int64) {
	for slug, opinion := range m.Opinions {
		text := m.Texts[slug]
		if text == "" { // the opinion was never counted
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

func (s *opinionSums) write(notes map[string][]byte) error {
	for text := range s.changed {
		data, err := json.Marshal(s.all[text])
		if err != nil {
			return fmt.Errorf("write the opinions on %s: %w", text, err)
		}
		notes[opinionKeyPrefix+text] = data
	}
	return nil
}
