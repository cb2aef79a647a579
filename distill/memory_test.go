package distill_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"precept/bandit/feedback"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// memoryStore is a store in memory. Each method first calls beforeStep, and fails with its error.
type memoryStore struct {
	beforeStep func(step string) error

	mu           sync.Mutex
	rows         []session.Row                             // ordered by first write
	exchanges    map[session.ID]map[string]sample.Exchange // by session and exchange
	versions     map[session.ID]int64                      // version of each settled session's settlement
	ratings      map[session.ID][]feedback.Entry
	sessionNotes map[session.ID][]byte
	tenantNotes  map[string]map[string][]byte // by tenant and key
	claimant     string
	claimUntil   time.Time
}

func newMemoryStore() *memoryStore {
	return &memoryStore{
		beforeStep: func(string) error { return nil }, exchanges: map[session.ID]map[string]sample.Exchange{}, ratings: map[session.ID][]feedback.Entry{},
		sessionNotes: map[session.ID][]byte{}, tenantNotes: map[string]map[string][]byte{},
	}
}

// step calls beforeStep, and unless this fails, calls do while it holds the lock.
func (m *memoryStore) step(name string, do func()) error {
	if err := m.beforeStep(name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	return nil
}

func (m *memoryStore) Write(_ context.Context, b session.Batch) error {
	return m.step("write", func() {
		for _, r := range b.Rows {
			if at := slices.IndexFunc(m.rows, func(o session.Row) bool { return o.ID == r.ID }); at >= 0 {
				m.rows[at] = r
				continue
			}
			m.rows = append(m.rows, r)
			m.exchanges[r.ID] = map[string]sample.Exchange{}
		}
		for _, x := range b.Exchanges {
			m.exchanges[b.Rows[0].ID][x.ID] = x
		}
	})
}

func (m *memoryStore) Tenants(context.Context) (list []string, err error) {
	err = m.step("tenants", func() {
		for i := range m.rows {
			list = append(list, m.rows[i].Tenant)
		}
		slices.Sort(list)
		list = slices.Compact(list)
	})
	return list, err
}

func (m *memoryStore) EachSession(_ context.Context, tenant string, since, _ time.Time, fn func(session.Row, session.SettledState) error) error {
	var rows []session.Row
	if err := m.step("sessions", func() { rows = slices.Clone(m.rows) }); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Tenant != tenant || r.Started.Before(since) {
			continue
		}
		if err := fn(r, session.SettledState{Version: m.versions[r.ID]}); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryStore) Exchanges(_ context.Context, _ string, id session.ID) (list []sample.Exchange, err error) {
	err = m.step("exchanges", func() {
		for _, name := range slices.Sorted(maps.Keys(m.exchanges[id])) {
			list = append(list, m.exchanges[id][name])
		}
	})
	return list, err
}

func (m *memoryStore) Feedback(_ context.Context, _ string, id session.ID) (list []feedback.Entry, err error) {
	err = m.step("feedback", func() { list = m.ratings[id] })
	return list, err
}

func (m *memoryStore) SessionNote(_ context.Context, _ string, id session.ID) (data []byte, err error) {
	err = m.step("session note", func() { data = slices.Clone(m.sessionNotes[id]) })
	return data, err
}

func (m *memoryStore) TenantNote(_ context.Context, tenant, key string) (data []byte, err error) {
	err = m.step("tenant note", func() { data = slices.Clone(m.tenantNotes[tenant][key]) })
	return data, err
}

func (m *memoryStore) EachNote(_ context.Context, tenant, prefix string, fn func(key string, data []byte) error) error {
	var notes map[string][]byte
	if err := m.step("notes", func() { notes = maps.Clone(m.tenantNotes[tenant]) }); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(notes)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := fn(key, notes[key]); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryStore) WriteNotes(_ context.Context, tenant string, sessionNotes map[session.ID][]byte, tenantNotes map[string][]byte) error {
	return m.step("write notes", func() {
		maps.Copy(m.sessionNotes, sessionNotes)
		if m.tenantNotes[tenant] == nil {
			m.tenantNotes[tenant] = map[string][]byte{}
		}
		maps.Copy(m.tenantNotes[tenant], tenantNotes)
	})
}

func (m *memoryStore) AcquireLease(_ context.Context, name, owner string, now time.Time, ttl time.Duration) (ok bool, err error) {
	err = m.step("claim", func() {
		if ok = m.claimant == "" || m.claimant == name+owner || !m.claimUntil.After(now); ok {
			m.claimant, m.claimUntil = name+owner, now.Add(ttl)
		}
	})
	return ok, err
}

func (m *memoryStore) ReleaseLease(_ context.Context, name, owner string) error {
	return m.step("unclaim", func() {
		if m.claimant == name+owner {
			m.claimant = ""
		}
	})
}

// memoryStorage is a bank.Storage in memory, because these tests write thousands of lessons.
type memoryStorage struct {
	mu     sync.Mutex
	texts  map[string][]byte
	events []lesson.Event
	writes int
}

func (*memoryStorage) Name() string { return "memory" }

func (p *memoryStorage) Read(context.Context) (bank.Contents, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bank.Contents{Texts: maps.Clone(p.texts), Version: strconv.Itoa(p.writes)}, nil
}

func (p *memoryStorage) Commit(_ context.Context, c bank.Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Version != strconv.Itoa(p.writes) {
		return bank.ErrChanged
	}
	for _, e := range c.Edits {
		if !bytes.Equal(p.texts[e.Name], e.Old) {
			return bank.ErrChanged
		}
	}
	for _, e := range c.Edits {
		p.writes++
		if p.texts[e.Name] = e.New; e.New == nil {
			delete(p.texts, e.Name)
		}
	}
	p.events = append(p.events, c.Log...)
	return nil
}

func (p *memoryStorage) Tail(_ context.Context, n int) ([]lesson.Event, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events[max(0, len(p.events)-n):]), nil
}
