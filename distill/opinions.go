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

// opinionNotes begins the keys of the tenant's notes that hold the sums of opinions, one for each
// text of a lesson. They are kept summed, since a report cannot read the marks of a million
// sessions.
const opinionNotes = "opinion|"

// textNames is the text that each slug stood for (report.TextOf).
type textNames map[string]string

// textOf names the text that was in force; sessions of which only the slug is known had what the
// bank has.
func textOf(arm trial.Arm, l *lesson.Lesson) string {
	if arm == "" || arm.Slug() == string(arm) {
		return l.Slug + "@" + l.Arm()
	}
	return report.TextOf(arm)
}

// NoteReader reads what the distiller has noted of a tenant.
type NoteReader interface {
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
}

// ReadOpinions reads the judges' opinions of a tenant's lessons, summed by text (report.TextOf).
func ReadOpinions(ctx context.Context, from NoteReader, tenant string) (map[string]report.Opinions, error) {
	all := map[string]report.Opinions{}
	err := from.EachNote(ctx, tenant, opinionNotes, func(key string, data []byte) error {
		var o report.Opinions
		if json.Unmarshal(data, &o) == nil { // what cannot be read is begun anew
			all[strings.TrimPrefix(key, opinionNotes)] = o
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the judges' opinions: %w", err)
	}
	return all, nil
}

// sums are the opinions of a tenant's lessons, by text.
type sums struct {
	all     map[string]report.Opinions
	changed map[string]bool // since they were written down
}

// recount takes back what a session's last reading said, and counts what the new one says: a
// session that went on counts once.
func (s *sums) recount(last, next *mark) {
	s.count(last, -1)
	s.count(next, 1)
}

func (s *sums) count(m *mark, n int64) {
	for slug, said := range m.Said {
		text := m.Texts[slug]
		if text == "" { // it was never summed
			continue
		}
		o := s.all[text]
		o.Add(said, n)
		s.all[text] = o
		if s.changed == nil {
			s.changed = map[string]bool{}
		}
		s.changed[text] = true
	}
}

// write adds what has changed to the notes that are to be written.
func (s *sums) write(notes map[string][]byte) error {
	for text := range s.changed {
		data, err := json.Marshal(s.all[text])
		if err != nil {
			return fmt.Errorf("write the opinions of %s: %w", text, err)
		}
		notes[opinionNotes+text] = data
	}
	return nil
}
