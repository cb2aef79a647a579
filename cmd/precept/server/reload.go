package server

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"precept/configs"
)

// reloadStatus is the last reload's result, for the dashboard and the metrics.
type reloadStatus struct {
	lastError   atomicString // "" if the reload succeeded
	pendingKeys atomicString // changed keys that need a restart, separated by spaces
	succeededAt atomic.Int64 // Unix nanoseconds at the last success, or at the start
}

// atomicString is a string that is safe for concurrent use.
type atomicString struct{ text atomic.Pointer[string] }

func (a *atomicString) set(text string) { a.text.Store(&text) }

func (a *atomicString) get() string {
	if p := a.text.Load(); p != nil {
		return *p
	}
	return ""
}

// reloadConfig reads and applies the configuration. If any server part rejects it, the previous configuration stays in
// effect.
func (s *Server) reloadConfig() {
	if s.options.Source == nil {
		return
	}
	if err := catchPanic(s.applyReload); err != nil {
		s.reload.lastError.set(err.Error())
		s.log.Error("the configuration was rejected; the previous configuration stays in effect", "error", err)
	}
}

// errEmptyConfig rejects an empty file. An editor may leave the file empty for a moment, and with the default settings
// the server would send agents' requests and keys to other upstreams.
var errEmptyConfig = errors.New(
	"the configuration file is empty; to use only default values, write {}",
)

// applyReload applies the changed keys that need no restart, in all server parts or in none.
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

// apply changes the server parts that support reloads.
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

func catchPanic(step func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("precept panicked; report the panic: %v", v)
		}
	}()
	return step()
}
