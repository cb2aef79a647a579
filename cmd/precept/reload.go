package main

import (
	"context"
	"crypto/sha256"
	"errors"
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
const pollEvery = 500 * time.Millisecond

// note is a text that one goroutine writes and others read, "" for nothing.
type note struct{ text atomic.Pointer[string] }

func (n *note) set(text string) { n.text.Store(&text) }

func (n *note) get() string {
	if p := n.text.Load(); p != nil {
		return *p
	}
	return ""
}

// reload reads the configuration again and takes it over whole, or not at all.
func (s *server) reload() {
	if err := fenced(s.takeOver); err != nil {
		s.faults.set(err.Error())
		s.log.Error("the configuration was not taken over, the old one stays in force", "error", err)
	}
}

// errEmpty is a file that somebody is writing, more likely than a configuration of defaults: that
// one would send the agents' requests, with their keys, to another upstream.
var errEmpty = errors.New("the configuration file is empty; write {} if nothing is to be configured")

// takeOver puts into force what can be followed of the configuration that the file holds now. What
// was given to some before it failed at others is taken back.
func (s *server) takeOver() error {
	read, err := s.flags.load(s.world, false)
	if err != nil {
		return err
	}
	if sum := s.flags.read.Load(); sum != nil && *sum == sha256.Sum256(nil) {
		return errEmpty
	}
	next, waiting := configs.Follow(s.started, read)
	if err := fenced(func() error { return s.give(next) }); err != nil {
		return errors.Join(err, fenced(func() error { return s.give(s.cfg) }))
	}
	s.cfg = next
	s.shown.Store(next)
	s.faults.set("")
	s.waiting.set(strings.Join(waiting, " "))
	if len(waiting) > 0 {
		s.log.Warn("these keys need a new start; until then they are as they were", "keys", strings.Join(waiting, " "))
	}
	s.log.Info("configuration taken over", "hash", next.Hash())
	return nil
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

// give gives a configuration to everyone who can follow it.
func (s *server) give(next *configs.Config) error {
	if err := s.service.reload(next); err != nil {
		return err
	}
	s.log.setLevel(next.Log.Level)
	return s.admin.SetAccess(s.access(next))
}

// watchFile says changed when the file holds something else than what was read of it last, by
// whomever: one that is changed, read at a SIGHUP and changed back is another one than the one in
// force. Two looks must agree, or it would be read while it is being written; a file that cannot be
// read is one that is being replaced.
func watchFile(ctx context.Context, path string, read func() *[sha256.Size]byte, changed chan<- struct{}) {
	if path == "" {
		return
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var last [sha256.Size]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b, err := os.ReadFile(path)
		now := sha256.Sum256(b)
		settled := err == nil && now == last
		last = now
		if known := read(); !settled || known != nil && now == *known {
			continue
		}
		select {
		case changed <- struct{}{}:
		default: // one is waiting already
		}
	}
}
