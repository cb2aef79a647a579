package server

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"precept/configs"
)

// reloadStatus holds the result of the last reload, for the dashboard and the metrics.
type reloadStatus struct {
	lastError   atomicString // error of the last reload; "" if the reload succeeded
	pendingKeys atomicString // changed keys that need a restart, separated by spaces
	succeededAt atomic.Int64 // Unix time in nanoseconds of the last successful reload, or of the start
}

// atomicString is a string that is safe for concurrent use. The zero value is the empty string.
type atomicString struct{ text atomic.Pointer[string] }

func (a *atomicString) set(text string) { a.text.Store(&text) }

func (a *atomicString) get() string {
	if p := a.text.Load(); p != nil {
		return *p
	}
	return ""
}

// reloadConfig reads the configuration again. If any part rejects it, the previous configuration stays in effect.
func (s *Server) reloadConfig() {
	if s.options.Source == nil {
		return
	}
	if err := catchPanic(s.applyReload); err != nil {
		s.reload.lastError.set(err.Error())
		s.log.Error("the configuration was rejected; the previous configuration stays in effect", "error", err)
	}
}

// errEmptyConfig rejects an empty configuration file. While an editor writes the file, the file may be empty for a
// moment. The server would then use the defaults and send the requests of agents, with their keys, to other upstreams.
var errEmptyConfig = errors.New(
	"the configuration file is empty; write {} if nothing is to be configured",
)

// applyReload applies the changed keys that need no restart. If one part of the server rejects the new configuration,
// applyReload restores the previous configuration in all parts.
func (s *Server) applyReload() error {
	read, err := s.options.Source.Load()
	if err != nil {
		return err
	}
	if s.options.Source.isEmpty() {
		return errEmptyConfig
	}
	next, pendingKeys := configs.ApplyReload(s.options.Config, read)
	if err := catchPanic(func() error { return s.apply(next) }); err != nil {
		return errors.Join(err, catchPanic(func() error { return s.apply(s.cfg) }))
	}
	s.cfg = next
	s.effective.Store(next)
	s.reload.lastError.set("")
	s.reload.succeededAt.Store(s.options.Tools.Now().UnixNano())
	s.reload.pendingKeys.set(strings.Join(pendingKeys, " "))
	if len(pendingKeys) > 0 {
		s.log.Warn("changed settings need a restart; old values stay in effect", "keys", strings.Join(pendingKeys, " "))
	}
	s.log.Info("configuration reloaded", "hash", next.Hash())
	return nil
}

// apply makes each part of the server that supports reloads use a configuration.
func (s *Server) apply(next *configs.Config) error {
	optOut, err := NewOptOut(next)
	if err != nil {
		return err
	}
	if err := s.proxy.Configure(next); err != nil {
		return err
	}
	st := s.services.store
	st.SetRetention(next.Learning.Retention)
	st.SetOptOut(optOut)
	st.SetRedactPersonal(next.Learning.AnonymizePII)
	setLevel(s.level, next.Log.Level)
	return s.admin.SetAccess(s.access(next))
}

// catchPanic calls step, and returns a panic as an error.
func catchPanic(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("precept panicked; report the panic: %v", v)
		}
	}()
	return step()
}
