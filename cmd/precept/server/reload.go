package server

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"precept/configs"
)

// reloadStatus is the result of the last reload, for the dashboard and the metrics.
type reloadStatus struct {
	fault     atomicText   // the error; "" after a reload that succeeded
	waiting   atomicText   // the changed keys that need a restart
	succeeded atomic.Int64 // time of the last reload that succeeded, or of the start: Unix time in nanoseconds
}

// atomicText is a text for concurrent use. The zero value is the empty text.
type atomicText struct{ text atomic.Pointer[string] }

func (t *atomicText) set(text string) { t.text.Store(&text) }

func (t *atomicText) get() string {
	if p := t.text.Load(); p != nil {
		return *p
	}
	return ""
}

// reloadConfig reads the configuration again and applies all of it, or nothing.
func (s *Server) reloadConfig() {
	if s.options.Source == nil {
		return
	}
	if err := withoutPanic(s.applyReload); err != nil {
		s.reload.fault.set(err.Error())
		s.log.Error("the configuration was rejected; the previous configuration stays in effect", "error", err)
	}
}

// errEmpty rejects an empty file. An editor that is writing leaves an empty file for a moment, and
// the default configuration would send the requests of agents, with their keys, to another upstream.
var errEmpty = errors.New(
	"the configuration file is empty; write {} if nothing is to be configured",
)

// applyReload applies the changed keys that need no restart. When one part of the program rejects the
// new configuration, every part gets the old configuration back.
func (s *Server) applyReload() error {
	read, err := s.options.Source.Load()
	if err != nil {
		return err
	}
	if s.options.Source.empty() {
		return errEmpty
	}
	next, waiting := configs.Follow(s.options.Config, read)
	if err := withoutPanic(func() error { return s.apply(next) }); err != nil {
		return errors.Join(err, withoutPanic(func() error { return s.apply(s.cfg) }))
	}
	s.cfg = next
	s.effective.Store(next)
	s.reload.fault.set("")
	s.reload.succeeded.Store(s.options.Tools.Now().UnixNano())
	s.reload.waiting.set(strings.Join(waiting, " "))
	if len(waiting) > 0 {
		s.log.Warn("changed settings need a restart; old values stay in effect", "keys", strings.Join(waiting, " "))
	}
	s.log.Info("configuration reloaded", "hash", next.Hash())
	return nil
}

// apply passes a configuration to every part of the program that reloads settings.
func (s *Server) apply(next *configs.Config) error {
	optOut, err := OptOutOf(next)
	if err != nil {
		return err
	}
	if err := s.proxy.Configure(next); err != nil {
		return err
	}
	st := s.services.store
	st.SetRetention(next.Learning.Retention)
	st.SetOptOut(optOut)
	st.SetPersonal(next.Learning.AnonymizePII)
	setLevel(s.level, next.Log.Level)
	return s.admin.SetAccess(s.access(next))
}

// withoutPanic runs a step and returns a panic of the step as an error.
func withoutPanic(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("precept panicked; report the panic: %v", v)
		}
	}()
	return step()
}
