package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"precept/configs"
	"precept/distill"
	"precept/internal/file"
)

// pollInterval is the time between two reads of the configuration file. The modification time alone is not enough: on
// some file systems, a rename leaves it unchanged.
const pollInterval = 500 * time.Millisecond

// missingPolls is the number of reads in a row that must find no file before the file counts as missing. An editor that
// replaces the file may remove it first.
const missingPolls = 4

// Source reads the configuration at startup and at each reload.
type Source struct {
	File  string                                     // "" for none
	Parse func(file []byte) (*configs.Config, error) // also applies flags and environment variables

	lastSum atomic.Pointer[[sha256.Size]byte] // the file's SHA-256 at the last read, valid or not; nil after a failed read
}

// FileError reports that the configuration file is missing or unreadable.
type FileError struct{ error }

// Load reads the configuration.
func (s *Source) Load() (*configs.Config, error) {
	if s.File == "" {
		return s.Parse(nil)
	}
	b, err := os.ReadFile(s.File)
	if err != nil {
		s.lastSum.Store(nil) // watch then reports the file when it is back, even with the old content
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, FileError{fmt.Errorf(
			"the configuration file %s does not exist; name another one with --config or PRECEPT_CONFIG, or run `precept init`",
			s.File,
		)}
	}
	if info, statErr := os.Stat(s.File); statErr == nil && info.IsDir() {
		return nil, FileError{fmt.Errorf("the configuration file %s is a directory; name the file in it, such as %s", s.File, filepath.Join(s.File, "precept.yaml"))}
	}
	if err != nil {
		return nil, FileError{fmt.Errorf("read the configuration: %w; make the file readable for this user, or name another file with --config or PRECEPT_CONFIG", err)}
	}
	sum := sha256.Sum256(b)
	s.lastSum.Store(&sum)
	return s.Parse(b)
}

// isEmpty reports whether Load last read an empty file.
func (s *Source) isEmpty() bool {
	sum := s.lastSum.Load()
	return sum != nil && *sum == sha256.Sum256(nil)
}

// watch returns a worker that sends to changed when the file differs from the content that Load read last. Two reads in
// a row must agree, because a single read may see an unfinished write.
//
// Read errors are ignored, because an editor may be replacing the file, or the file may be a pipe that only Load reads.
// After missingPolls polls without a file, the worker calls missing.
func (s *Source) watch(changed chan<- struct{}, missing func()) func(context.Context) error {
	return func(ctx context.Context) error {
		if s.File == "" {
			return nil
		}
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		var last [sha256.Size]byte
		missingCount := 0 // polls in a row without a file
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			b, err := file.Read(s.File)
			if !errors.Is(err, fs.ErrNotExist) {
				missingCount = 0
			} else if missingCount++; missingCount == missingPolls {
				missing()
			}
			sum := sha256.Sum256(b)
			stable := err == nil && sum == last
			last = sum
			if loadedSum := s.lastSum.Load(); !stable || loadedSum != nil && sum == *loadedSum {
				continue
			}
			select {
			case changed <- struct{}{}:
			default: // a signal is pending
			}
		}
	}
}

// CheckFiles returns faults in configured files and directories that would prevent the server from starting.
func CheckFiles(cfg *configs.Config) (faults configs.Faults) {
	if info, err := os.Stat(cfg.StoreURL()); err == nil && info.IsDir() {
		faults = append(faults, configs.Fault{
			Key: "store.url", Problem: "is a directory; name a file in it, such as " + filepath.Join(cfg.StoreURL(), "precept.db"),
		})
	}
	if cfg.Distill.Enabled && cfg.Distill.Judge != "rules" {
		if _, err := distill.LoadPrompts(cfg.Distill.Prompts); err != nil {
			faults = append(faults, configs.Fault{Key: "distill.prompts", Problem: "cannot be used: " + err.Error()})
		}
	}
	return faults
}
