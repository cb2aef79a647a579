package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"
)

const (
	// statePath is the file of the progress. Readers of Hive partitions skip names that begin with an
	// underscore.
	statePath    = "_precept/state.json"
	stateVersion = 1
)

// state is the progress of a lake. Each commit replaces the file of the state twice: with the planned batch before the
// first Parquet file, and without the planned batch after the last one. After a crash in between, the batch is built
// again from the same positions, and written to the same names unless a sample was deleted.
type state struct {
	Version int               `json:"version"`
	Store   string            `json:"store,omitempty"` // id of the store whose samples the lake has
	Group   string            `json:"group"`
	Writer  Process           `json:"writer"`
	Batch   int64             `json:"batch"`             // number of the last complete batch
	Streams map[string]string `json:"streams"`           // position of each stream after the last complete batch
	Planned *plan             `json:"planned,omitempty"` // batch that is being written
	Recent  []recentFile      `json:"recent"`            // newest files, the oldest first
}

// Process is a process that writes a lake.
type Process struct {
	ID    string    `json:"id"` // unique among processes
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// plan is a batch that is being written.
type plan struct {
	Streams map[string]string `json:"streams"` // new positions
	Attempt int               `json:"attempt"` // number of earlier attempts with other rows
	Files   []string          `json:"files"`
	Emptied []string          `json:"emptied,omitempty"` // files of earlier attempts, which become files without rows
}

// recentFile is a file whose sample ids are not written again.
type recentFile struct {
	Path string `json:"path"`
	Rows int    `json:"rows"`
}

// loadState reads the progress of a lake and the version of the file, "" for a new lake.
func loadState(ctx context.Context, place Place, group, store string) (s *state, version string, err error) {
	s = &state{Version: stateVersion, Store: store, Group: group, Streams: map[string]string{}}
	text, version, err := place.Get(ctx, statePath)
	if errors.Is(err, fs.ErrNotExist) {
		return s, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	where := place.String() + "/" + statePath
	if err := json.Unmarshal(text, s); err != nil {
		return nil, "", fmt.Errorf("%s does not parse: %w; restore the file from a backup, or start a new lake with another --output and --group", where, err)
	}
	if s.Version != stateVersion {
		return nil, "", fmt.Errorf("%s has version %d, and this precept knows version %d; upgrade precept", where, s.Version, stateVersion)
	}
	if s.Group != group {
		return nil, "", fmt.Errorf("%s belongs to the group %q; use --group %s, or another --output", place, s.Group, s.Group)
	}
	if s.Store != "" && store != "" && s.Store != store {
		return nil, "", fmt.Errorf("%s belongs to another store (%s, last written by %s since %s); this store is %s: name an --output of its own for this store, or open the other store with --store-url or --data-dir",
			place, s.Store, s.Writer.Host, s.Writer.Since.Format(time.RFC3339), store)
	}
	return s, version, nil
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
