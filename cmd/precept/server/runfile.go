package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"precept/internal/file"
)

// RunFile is <data_dir>/run.json: the addresses of the precept of this data directory.
type RunFile struct {
	PID   int    `json:"pid"`
	Data  string `json:"data"`
	Admin string `json:"admin"`
}

// RunFilePath returns the path of run.json.
func RunFilePath(dataDir string) string { return filepath.Join(dataDir, "run.json") }

// WriteRunFile writes the whole file or nothing, because programs read the file as soon as it exists.
func WriteRunFile(dataDir string, r RunFile) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return file.Write(RunFilePath(dataDir), 0o600, b, []byte("\n"))
}

// removeRunFile removes run.json at a clean stop.
func removeRunFile(dataDir string) { _ = os.Remove(RunFilePath(dataDir)) }

// ReadRunFile returns the addresses of the precept of a data directory. After a crash the file may be
// stale: the caller tries the address.
func ReadRunFile(dataDir string) (RunFile, error) {
	var r RunFile
	b, err := os.ReadFile(RunFilePath(dataDir))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", RunFilePath(dataDir), err)
	}
	return r, nil
}
