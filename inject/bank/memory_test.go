package bank_test

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// memory is an in-memory bank.Storage that records commits and can fail.
type memory struct {
	mu      sync.Mutex
	texts   map[string][]byte
	index   []byte
	log     []lesson.Event
	version int
	commits []bank.Change

	onCommit  func() // called once, during the next commit
	commitErr error
	tailErr   error
}

func (m *memory) Name() string { return "memory" }

func (m *memory) Read(ctx context.Context) (bank.Contents, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bank.Contents{Texts: maps.Clone(m.texts), Version: strconv.Itoa(m.version)}, ctx.Err()
}

func (m *memory) Tail(_ context.Context, n int) ([]lesson.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log[max(0, len(m.log)-n):], m.tailErr
}

func (m *memory) Commit(_ context.Context, c bank.Change) error {
	if between := m.onCommit; between != nil {
		m.onCommit = nil
		between()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commits = append(m.commits, c)
	if m.commitErr != nil {
		return m.commitErr
	}
	if c.Version != strconv.Itoa(m.version) {
		return bank.ErrChanged
	}
	next := maps.Clone(m.texts)
	for _, e := range c.Edits {
		if !bank.IsName(e.Name) {
			return &bank.Refused{}
		}
		if old, exists := next[e.Name]; exists != (e.Old != nil) || !bytes.Equal(old, e.Old) {
			return bank.ErrChanged
		}
		if next[e.Name] = e.New; e.New == nil {
			delete(next, e.Name)
		}
	}
	if len(c.Edits) > 0 {
		m.version++
	}
	if c.Index != nil {
		m.index = c.Index(m.index)
	}
	m.texts, m.log = next, append(m.log, c.Log...)
	return nil
}

func newMemoryBank(t *testing.T, slugs ...string) (*bank.Bank, *memory) {
	t.Helper()
	m := &memory{texts: map[string][]byte{}}
	for _, slug := range slugs {
		m.texts[slug+".md"] = lessonText(t, slug)
	}
	return bank.New(bank.Options{Storage: m, Now: noon}), m
}

// The tests in package banktest must not require anything that only a directory or Redis can do.
func TestMemoryPassesTheBankSuite(t *testing.T) {
	banktest.Run(t, func(*testing.T) bank.Storage { return &memory{texts: map[string][]byte{}} })
}
