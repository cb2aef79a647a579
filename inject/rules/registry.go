package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"precept/bandit/trial"
	"precept/internal/file"
)

// RegistryName is the registry's name in the lessons folder.
const RegistryName = "_rules.json"

// State is the state of a section's measurement.
type State string

// The states. A finished or stopped section stays registered, because sessions that were measured still cut it.
const (
	Queued    State = "queued"
	Measuring State = "measuring"
	Finished  State = "finished" // ended by a verdict
	Stopped   State = "stopped"  // by a person
)

// RegisteredSection is a section registered ended by a person for measurement. Each version of the text has an entry.
type RegisteredSection struct {
	File           string  `json:"file"`    // last element of the file path
	Section        string  `json:"section"` // section name in the file
	Hash           string  `json:"hash"`
	Path           string  `json:"path,omitempty"` // absolute file path at registration
	Text           string  `json:"text"`
	CutProbability float64 `json:"share"` // probability that a session cuts the section
	State          State   `json:"state"`
	Verdict        string  `json:"verdict,omitempty"` // verdict that ended the measurement

	Picks            int64   `json:"picks,omitempty"`  // rewarded sessions in the planned trial; 0 if no trial is planned
	DetectableEffect float64 `json:"detect,omitempty"` // smallest effect that the trial detects, in hundredths of the reward

	Forbids string    `json:"forbids,omitempty"` // prohibition in the section, if it was registered with --force
	Added   time.Time `json:"added"`
	Began   time.Time `json:"began,omitzero"` // sessions that started earlier are not measured
	Ended   time.Time `json:"ended,omitzero"`
}

// ArmPrefix starts every section's arm (treatment name).
const ArmPrefix = trial.RulePrefix

// Slug returns the arm's name: rule:FILE#section.
func (r *RegisteredSection) Slug() string { return ArmPrefix + r.File + "#" + r.Section }

// Arm returns the arm for this version.
func (r *RegisteredSection) Arm() trial.Arm { return trial.Arm(r.Slug() + "@" + r.Hash) }

// Trial returns the planned trial's name, or "".
func (r *RegisteredSection) Trial() string { return trial.PlannedName(r.Began, r.Picks, "") }

// Registry holds the sections in registration order. Sections never change; Update writes a new Registry. SetStarts and
// Delay change only start times.
type Registry struct {
	Sections []RegisteredSection `json:"sections"`

	lines  [][]string  // by section, for Locate
	starts []time.Time // by section; earlier sessions are not measured
}

// Path returns the registry's path in a lessons folder.
func Path(lessons string) string { return filepath.Join(lessons, RegistryName) }

// Read reads a registry. If the file is missing, the registry is empty.
func Read(path string) (*Registry, error) {
	raw, err := file.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Registry{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the registered sections: %w", err)
	}
	return Parse(path, raw)
}

// Parse parses a registry; raw may be empty. name is for errors.
func Parse(name string, raw []byte) (*Registry, error) {
	var r Registry
	if len(raw) == 0 {
		return &r, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s is not a section list: %w; restore the file, or write {} into it to measure nothing", name, err)
	}
	for i := range r.Sections {
		s := &r.Sections[i]
		if s.Hash != Hash(s.Text) || !(s.CutProbability > 0 && s.CutProbability < 1) || s.File == "" || s.Section == "" {
			return nil, fmt.Errorf("%s: entry %d (%s) is damaged; remove the entry and register the section again with `precept rules measure`", name, i+1, s.Slug())
		}
		r.lines, r.starts = append(r.lines, Lines(s.Text)), append(r.starts, s.Began)
	}
	return &r, nil
}

// SetStarts sets, for this process, when each measurement starts, and returns r. before is the registry that this
// process read previously; now is when the process read r. A new measurement starts at now or later, because the model
// may have seen the section in earlier sessions.
func (r *Registry) SetStarts(before *Registry, now time.Time) *Registry {
	for i := range r.Sections {
		s := &r.Sections[i]
		old, wasListed := before.Index(s.Arm())
		wasMeasuring := wasListed && before.Sections[old].State == Measuring
		switch {
		case s.State == Measuring && !wasMeasuring:
			if r.starts[i].Before(now) {
				r.starts[i] = now
			}
		case wasListed:
			r.starts[i] = before.starts[old]
		}
	}
	return r
}

// Delay moves the starts by d, and returns r. During the delay, all replicas can read a new section. Otherwise, one
// replica could cut the section in a session while another keeps it.
func (r *Registry) Delay(d time.Duration) *Registry {
	for i := range r.starts {
		r.starts[i] = r.starts[i].Add(d)
	}
	return r
}

// Lines returns the lines in section i, for Locate.
func (r *Registry) Lines(i int) []string { return r.lines[i] }

// IsMeasuring reports whether section i is measured in a session with this start.
func (r *Registry) IsMeasuring(i int, started time.Time) bool {
	return r.Sections[i].State == Measuring && !started.Before(r.starts[i])
}

// Index returns the index of the section with an arm.
func (r *Registry) Index(arm trial.Arm) (i int, ok bool) {
	i = slices.IndexFunc(r.Sections, func(s RegisteredSection) bool { return s.Arm() == arm })
	return i, i >= 0
}

// Update changes the registry under a lock that excludes other processes. If change fails or changes nothing, Update
// writes nothing.
func Update(path string, change func(list []RegisteredSection) ([]RegisteredSection, error)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // every user may read the folder of the lessons
		return fmt.Errorf("register sections: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("register sections: %w; make the lessons directory writable", err)
	}
	defer func() { _ = lock.Close() }()
	if err := file.Lock(lock); err != nil {
		return fmt.Errorf("register sections: %w", err)
	}
	r, err := Read(path)
	if err != nil {
		return err
	}
	out, err := r.EncodeChanged(change)
	if err != nil || out == nil {
		return err
	}
	if err := file.Write(path, 0o644, out); err != nil {
		return fmt.Errorf("register sections: %w", err)
	}
	return nil
}

// EncodeChanged returns the registry file's text after change, or nil if the list stays the same.
func (r *Registry) EncodeChanged(change func(list []RegisteredSection) ([]RegisteredSection, error)) ([]byte, error) {
	before, err := json.Marshal(r.Sections)
	if err != nil {
		return nil, fmt.Errorf("register sections: %w", err)
	}
	list, err := change(slices.Clone(r.Sections))
	if err != nil {
		return nil, err
	}
	if after, err := json.Marshal(list); err != nil || bytes.Equal(before, after) {
		return nil, err
	}
	out, err := json.MarshalIndent(Registry{Sections: list}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("register sections: %w", err)
	}
	return append(out, '\n'), nil
}

// Advance ends the measurements that have reached a verdict, and starts queued measurements, so that at most atOnce
// sections are measured at the same time. verdict returns "" for a measurement that continues. changed reports whether
// the list changed.
func Advance(list []RegisteredSection, atOnce int, now time.Time, verdict func(*RegisteredSection) string) (changed bool) {
	measuring := 0
	for i := range list {
		s := &list[i]
		if s.State != Measuring {
			continue
		}
		if v := verdict(s); v != "" {
			s.State, s.Verdict, s.Ended, changed = Finished, v, now.UTC(), true
			continue
		}
		measuring++
	}
	for i := range list {
		if s := &list[i]; s.State == Queued && measuring < atOnce {
			s.State, s.Began, changed = Measuring, cmp.Or(s.Began, now.UTC()), true
			measuring++
		}
	}
	return changed
}
