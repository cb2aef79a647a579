package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

const (
	// statePath is the file of the progress. Readers of Hive partitions skip names that begin with an
	// underscore.
	statePath    = "_precept/state.json"
	stateVersion = 1
)

// state is the progress of a lake. The file is replaced twice in each commit: with the planned batch
// before the first file, and without after the last file. After a crash in between, the batch is
// built again from the same positions and written to the same names.
type state struct {
	Version int               `json:"version"`
	Group   string            `json:"group"`
	Batch   int64             `json:"batch"`             // number of the last complete batch
	Streams map[string]string `json:"streams"`           // position of each stream after the last complete batch
	Planned *plan             `json:"planned,omitempty"` // batch that is being written
	Recent  []recentFile      `json:"recent"`            // newest files, the oldest first
}

// plan is a batch that is being written.
type plan struct {
	Streams map[string]string `json:"streams"` // new positions
	Files   []string          `json:"files"`
}

// recentFile is a file whose sample ids are not written again.
type recentFile struct {
	Path string `json:"path"`
	Rows int    `json:"rows"`
}

// loadState reads the progress of a lake; a new lake has none.
func loadState(ctx context.Context, to Place, group string) (s *state, isNew bool, err error) {
	s = &state{Version: stateVersion, Group: group, Streams: map[string]string{}}
	text, err := to.Get(ctx, statePath)
	if errors.Is(err, fs.ErrNotExist) {
		return s, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	where := to.String() + "/" + statePath
	if err := json.Unmarshal(text, s); err != nil {
		return nil, false, fmt.Errorf("%s does not parse: %w; restore the file from a backup, or start a new lake with another --output and --group", where, err)
	}
	if s.Version != stateVersion {
		return nil, false, fmt.Errorf("%s has version %d, and this precept knows version %d; upgrade precept", where, s.Version, stateVersion)
	}
	if s.Group != group {
		return nil, false, fmt.Errorf("%s belongs to the group %q; use --group %s, or another --output", to, s.Group, s.Group)
	}
	return s, false, nil
}

// save replaces the file.
func (s *state) save(ctx context.Context, to Place) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return to.Put(ctx, statePath, text)
}

// complete returns the state after the planned batch.
func (s *state) complete(files []recentFile) *state {
	next := *s
	next.Batch, next.Planned = s.Batch+1, nil
	next.Streams = maps.Clone(s.Streams)
	maps.Copy(next.Streams, s.Planned.Streams)
	next.Recent = append(append([]recentFile(nil), s.Recent...), files...)
	rows := 0
	for i, f := range slices.Backward(next.Recent) {
		if rows += f.Rows; rows > windowIDs || len(next.Recent)-i > windowFiles {
			next.Recent = next.Recent[i:]
			break
		}
	}
	return &next
}
