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

// pollEvery is how often the configuration file is looked at. It is read whole and compared:
// renames, symlink swaps and file systems without usable times all look the same then, for a few
// kilobytes a second.
const pollEvery = 500 * time.Millisecond

// Source is where a configuration is read from, again and again.
type Source struct {
	File  string                                     // "" where there is none
	Parse func(file []byte) (*configs.Config, error) // with whatever stands beside the file: flags, the environment

	read atomic.Pointer[[sha256.Size]byte] // the sum of the file that was read last, whatever was in it
}

// Load reads the configuration.
func (s *Source) Load() (*configs.Config, error) {
	if s.File == "" {
		return s.Parse(nil)
	}
	b, err := os.ReadFile(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"there is no configuration file %s; name another with --config or PRECEPT_CONFIG, or have precept init write one",
			s.File,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	s.read.Store(&sum)
	return s.Parse(b)
}

// empty says that the file that was read last had nothing in it.
func (s *Source) empty() bool {
	sum := s.read.Load()
	return sum != nil && *sum == sha256.Sum256(nil)
}

// watch says changed when the file holds something else than what was read of it last, by whomever:
// one that is changed, read at a SIGHUP and changed back is another one than the one in force. Two
// looks must agree, or it would be read while it is being written; a file that cannot be read is
// one that is being replaced. A pipe, as a shell makes one of <(command), is read once, by Load.
func (s *Source) watch(changed chan<- struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		if s.File == "" {
			return nil
		}
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		var last [sha256.Size]byte
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			b, err := file.Read(s.File)
			now := sha256.Sum256(b)
			settled := err == nil && now == last
			last = now
			if known := s.read.Load(); !settled || known != nil && now == *known {
				continue
			}
			select {
			case changed <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

// CheckFiles returns the faults of files and directories for which a start would fail.
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
