package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"precept/configs"
)

// pollEvery is how often the configuration file is looked at. It is read whole and compared:
// renames, symlink swaps and file systems without usable times all look the same then, for a few
// kilobytes a second.
const pollEvery = time.Second

// faultNote is what was wrong at the last reload, "" for nothing.
type faultNote struct{ text atomic.Pointer[string] }

func (n *faultNote) set(text string) { n.text.Store(&text) }

func (n *faultNote) get() string {
	if p := n.text.Load(); p != nil {
		return *p
	}
	return ""
}

// reload reads the configuration again and takes it over whole, or not at all.
func (s *server) reload() {
	var next *configs.Config
	err := fenced(func() (err error) {
		if next, err = s.flags.load(s.world, false); err != nil {
			return err
		}
		return s.takeOver(next)
	})
	if err != nil {
		s.faults.set(err.Error())
		s.log.Error("the configuration was not taken over, the old one stays in force", "error", err)
		return
	}
	s.faults.set("")
	if keys := configs.RestartKeys(s.cfg, next); len(keys) > 0 {
		s.log.Warn("these keys need a new start", "keys", strings.Join(keys, " "))
	}
	s.cfg = next
	s.shown.Store(next)
	s.log.Info("configuration taken over", "hash", next.Hash())
}

// fenced runs a step, of which a panic is an error.
func fenced(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it made precept panic, please report it: %v", v)
		}
	}()
	return step()
}

// takeOver gives a configuration to everyone who can follow it. The admin's door is last: it cannot
// fail once there is a token.
func (s *server) takeOver(next *configs.Config) error {
	if err := s.service.reload(next); err != nil {
		return err
	}
	s.log.setLevel(next.Log.Level)
	return s.admin.SetAccess(s.access(next))
}

// watchFile says changed when the file's content is another one; a file that cannot be read is one
// that is being replaced.
func watchFile(ctx context.Context, path string, changed chan<- struct{}) {
	if path == "" {
		return
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	last, _ := fileSum(path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := fileSum(path)
		if err != nil || now == last {
			continue
		}
		last = now
		select {
		case changed <- struct{}{}:
		default: // one is waiting already
		}
	}
}

func fileSum(path string) ([sha256.Size]byte, error) {
	b, err := os.ReadFile(path)
	return sha256.Sum256(b), err
}
