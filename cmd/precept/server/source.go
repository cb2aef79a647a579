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

// pollInterval is the interval at which the whole configuration file is read and compared. On some file systems, a
// rename or a replaced symbolic link does not change the file time, so the content is compared. The cost is a few
// kilobytes a second.
const pollInterval = 500 * time.Millisecond

// missingPolls is the number of polls without a file after which the file counts as missing. When an editor replaces
// the file, the file is missing for a shorter time.
const missingPolls = 4

// Source reads the configuration at the start and at each reload.
type Source struct {
	File  string                                     // path of the configuration file; "" for none
	Parse func(file []byte) (*configs.Config, error) // parses the file, and applies flags and environment variables

	lastSum atomic.Pointer[[sha256.Size]byte] // SHA-256 of the file at the last read, valid or not; nil after a failed read
}

// FileError reports that the configuration file is missing or unreadable. Load returns other errors for invalid
// content.
type FileError struct{ error }

// Load reads the configuration.
func (s *Source) Load() (*configs.Config, error) {
	if s.File == "" {
		return s.Parse(nil)
	}
	b, err := os.ReadFile(s.File)
	if err != nil {
		s.lastSum.Store(nil) // when the file is back, watch reports it, also with the old content
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
		return nil, FileError{fmt.Errorf("read the configuration: %w; name a file that this user may read with --config or PRECEPT_CONFIG", err)}
	}
	sum := sha256.Sum256(b)
	s.lastSum.Store(&sum)
	return s.Parse(b)
}

// isEmpty reports whether the file was empty when Load read it last.
func (s *Source) isEmpty() bool {
	sum := s.lastSum.Load()
	return sum != nil && *sum == sha256.Sum256(nil)
}

// watch returns a worker that sends on changed when the content of the file differs from the content that Load read
// last. A change counts when two reads in a row agree, because a single read may see an unfinished write. Read errors
// are ignored: the file may be in replacement, or it may be a pipe, such as a shell's <(command), which only Load
// reads, once. The worker calls missing when missingPolls polls in a row found no file.
func (s *Source) watch(changed chan<- struct{}, missing func()) func(context.Context) error {
	return func(ctx context.Context) error {
		if s.File == "" {
			return nil
		}
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		var last [sha256.Size]byte
		missingCount := 0 // number of polls in a row that found no file
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
			if known := s.lastSum.Load(); !stable || known != nil && sum == *known {
				continue
			}
			select {
			case changed <- struct{}{}:
			default: // a signal is already pending
			}
		}
	}
}

// CheckFiles returns the faults of configured files and directories with which the server would not start.
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
