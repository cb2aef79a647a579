package server

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"precept/configs"
)

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
func (s *Server) reload() {
	if s.options.Source == nil {
		return
	}
	if err := fenced(s.takeOver); err != nil {
		s.faults.set(err.Error())
		s.log.Error(
			"the configuration was not taken over, the old one stays in force", "error", err,
		)
	}
}

// errEmpty is a file that somebody is writing, more likely than a configuration of defaults: that
// one would send the agents' requests, with their keys, to another upstream.
var errEmpty = errors.New(
	"the configuration file is empty; write {} if nothing is to be configured",
)

// takeOver puts into force what can be followed of the configuration that the file holds now. What
// was given to some before it failed at others is taken back.
func (s *Server) takeOver() error {
	read, err := s.options.Source.Load()
	if err != nil {
		return err
	}
	if s.options.Source.empty() {
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
		s.log.Warn(
			"these keys need a new start; until then they are as they were", "keys",
			strings.Join(waiting, " "),
		)
	}
	s.log.Info("configuration taken over", "hash", next.Hash())
	return nil
}

// fenced runs a step, of which a panic is an error.
func fenced(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("precept panicked, please report it: %v", v)
		}
	}()
	return step()
}

// give gives a configuration to everyone who can follow it.
func (s *Server) give(next *configs.Config) error {
	if err := s.parts.configure(next); err != nil {
		return err
	}
	s.log.setLevel(next.Log.Level)
	return s.admin.SetAccess(s.access(next))
}
