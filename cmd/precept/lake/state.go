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
	// Readers of Hive partitions skip names that begin with an underscore.
	statePath    = "_precept/state.json"
	stateVersion = 1
)

// state is a lake's progress. Each commit writes the state file twice: before the first Parquet file, with the planned
// batch, and after the last file, without the batch. After a crash in between, the next process builds the batch again,
// in files with the same names unless a sample was deleted.
type state struct {
	Version int               `json:"version"`
	Store   string            `json:"store,omitempty"` // id of the copied store
	Group   string            `json:"group"`
	Writer  Process           `json:"writer"`            // process that wrote the file last
	Batch   int64             `json:"batch"`             // number of the last complete batch
	Streams map[string]string `json:"streams"`           // each stream's position after the last complete batch
	Planned *plan             `json:"planned,omitempty"` // batch being written
	Recent  []recentFile      `json:"recent"`            // newest files, oldest first
}

// Process is a process that writes a lake.
type Process struct {
	ID    string    `json:"id"` // unique among processes
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// plan is a batch being written.
type plan struct {
	Streams map[string]string `json:"streams"`           // each stream's position after the batch
	Attempt int               `json:"attempt"`           // number of earlier attempts with different rows
	Files   []string          `json:"files"`             // paths of the batch's files
	Emptied []string          `json:"emptied,omitempty"` // files from earlier attempts, to be emptied
}

// recentFile is a file with sample ids to load into the window.
type recentFile struct {
	Path string `json:"path"`
	Rows int    `json:"rows"`
}

// loadState reads the state file. Without a file, the version is "".
func loadState(ctx context.Context, storage Storage, group, store string) (s *state, version string, err error) {
	s = &state{Version: stateVersion, Store: store, Group: group, Streams: map[string]string{}}
	text, version, err := storage.Get(ctx, statePath)
	if errors.Is(err, fs.ErrNotExist) {
		return s, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	address := storage.String() + "/" + statePath
	if err := json.Unmarshal(text, s); err != nil {
		return nil, "", fmt.Errorf("%s is not valid JSON: %w; restore the file from a backup, or start a new export with another --output and --group", address, err)
	}
	if s.Version != stateVersion {
		return nil, "", fmt.Errorf("%s has version %d, but this precept supports only version %d; upgrade precept", address, s.Version, stateVersion)
	}
	if s.Group != group {
		return nil, "", fmt.Errorf("%s belongs to the group %q; use --group %s, or another --output", storage, s.Group, s.Group)
	}
	if s.Store != "" && store != "" && s.Store != store {
		return nil, "", fmt.Errorf("%s belongs to another store (%s, written by the host %s since %s), and this store is %s; name a separate --output for this store, or open the other store with --store-url or --data-dir",
			storage, s.Store, s.Writer.Host, s.Writer.Since.Format(time.RFC3339), store)
	}
	return s, version, nil
}

// afterBatch returns the state after the planned batch with the given files. Older files are dropped from Recent if the
// newer ones fill the window.
func (s *state) afterBatch(files []recentFile) *state {
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
