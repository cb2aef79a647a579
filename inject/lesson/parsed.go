package lesson

import "sync"

// Parsed holds the parsed texts of a bank by name, so that several readers of the bank parse each text once. The
// readers must use the same Secrets. Parsed is safe for concurrent use. A nil Parsed holds nothing.
type Parsed struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// NewParsed returns a Parsed without texts.
func NewParsed() *Parsed { return &Parsed{entries: map[string]*entry{}} }

// get returns the entry of an equal text that another reader parsed, nil for none.
func (p *Parsed) get(e *entry) *entry {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.entries[e.name]; known != nil && known.path == e.path && known.raw == e.raw {
		return known
	}
	return nil
}

// put keeps the entries without faults, and removes all other entries. The lesson of an entry with faults
// depends on the earlier texts of its reader.
func (p *Parsed) put(entries map[string]*entry) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.entries)
	for name, e := range entries {
		if len(e.faults) == 0 {
			p.entries[name] = e
		}
	}
}
