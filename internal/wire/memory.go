package wire

import (
	"cmp"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"precept/internal/label"
)

// ParseCache parses request bodies. An agent sends the whole conversation every turn, so ParseCache parses only the new
// part and hashes the rest, which takes a tenth of the time.
//
// The cache holds offsets and hashes, never text. The hash is not cryptographic, so a client can construct two
// beginnings with the same hash. The cache key includes the scope (the client's credential), so such a client can
// confuse only its own requests. A ParseCache is safe for concurrent use.
type ParseCache struct {
	mu          sync.Mutex
	checkpoints map[uint64][]*checkpoint // by scope, dialect and the body's first bytes; the shortest first
	size        int                      // total checkpoint size, in entries
	minBytes    int
	storeCount  uint64 // stored checkpoint count
}

// Bounds. An entry is one list item, result, tool or key in a checkpoint.
const (
	memoryMinBytes       = 8 << 10 // a shorter body is faster to parse than to look up
	cacheKeyBytes        = 1 << 10 // first bytes that a bucket's key covers
	maxBucketCheckpoints = 64
	maxCacheEntries      = 1_000_000 // an entry needs about 16 bytes
)

// checkpoint is the scanner's state in an earlier body, after the last item. The scan of a longer body with the same
// beginning resumes at end.
type checkpoint struct {
	end         int // end of the covered bytes
	spans       memberSpans
	keys        []span
	list        []entry
	results     []scannedResult
	tools       []span
	count       int    // parser.count after the list
	start       int    // list offset
	head        uint64 // hash of the bytes before the list
	sum         uint64 // hash of the list up to end
	systemHash  uint64
	systemFinal bool   // an item before end is not system text
	lastUsed    uint64 // storeCount at the last use
	isShared    bool   // a parser has resumed here, and may write into the spare capacity of list and results

	digest xxhash.Digest // list hash state up to end; set only in findCheckpoint's copy
}

// NewParseCache returns an empty cache.
func NewParseCache() *ParseCache {
	return &ParseCache{checkpoints: map[uint64][]*checkpoint{}, minBytes: memoryMinBytes}
}

// Parse is like the package's Parse function, but resumes from the checkpoint that covers the longest known prefix of
// the body. If the body has more than maxItems items, parts, calls, tools and top-level keys, the error has the reason
// "items". If maxItems is 0, there is no limit.
func (m *ParseCache) Parse(scope uint64, d Dialect, body []byte, maxItems int) (*Request, error) {
	if len(body) < m.minBytes {
		r, _, err := parse(d, body, maxItems)
		return r, err
	}
	key := scope ^ uint64(d)<<56 ^ xxhash.Sum64(body[:min(len(body), cacheKeyBytes, m.minBytes)])
	cp := m.findCheckpoint(key, body)
	if cp == nil {
		r, p, err := parse(d, body, maxItems)
		if err == nil {
			m.storeCheckpoint(key, p, r, nil)
		}
		return r, err
	}
	p := cp.parser(d, body, maxItems)
	r, err := p.request(p.resume(cp), cp)
	if err == nil {
		m.storeCheckpoint(key, p, r, cp)
	}
	return r, err
}

func parse(d Dialect, body []byte, maxItems int) (*Request, *parser, error) {
	if len(body) > maxBody {
		return nil, nil, &Uninspected{label.UninspectedSize}
	}
	p := &parser{scan: scanner{b: body}, dialect: d, maxCount: maxItems}
	r, err := p.request(p.body(), nil)
	return r, p, err
}

// parser returns a parser that continues at cp.end. The parser appends to the arrays of cp.list and cp.results without
// a copy, so a turn's cost does not grow with the conversation. Earlier requests never read beyond the old length. If
// two requests continue from one checkpoint, findCheckpoint clips the second request's lists, so that append copies
// these lists.
func (cp *checkpoint) parser(d Dialect, body []byte, maxItems int) *parser {
	return &parser{
		scan: scanner{b: body}, dialect: d, maxCount: maxItems, count: cp.count, spans: cp.spans, keys: slices.Clone(cp.keys),
		list: withCapacity(cp.list), results: withCapacity(cp.results), tools: slices.Clone(cp.tools),
		prelude: listPrelude{cp.spans, len(cp.keys)},
	}
}

const turnCapacity = 8 // spare capacity for the next turn's items and results

func withCapacity[T any](s []T) []T {
	if cap(s) >= len(s)+turnCapacity {
		return s
	}
	return append(make([]T, 0, len(s)+len(s)/8+turnCapacity), s...)
}

func (p *parser) resume(cp *checkpoint) int {
	i := p.listItems(p.scan.nextElement(cp.end, ']'))
	if i > 0 {
		p.spans.list = span{cp.start, i}
	}
	return p.members(p.scan.nextElement(i, '}'))
}

func (cp *checkpoint) listHash(list []byte) uint64 {
	d := cp.digest
	_, _ = d.Write(list[cp.end-cp.start:])
	return d.Sum64()
}

const fixedCost = 16 // size of a checkpoint with empty lists, in entries

func (cp *checkpoint) size() int {
	return fixedCost + len(cp.list) + len(cp.results) + len(cp.tools) + len(cp.keys)
}

func clip[T any](s []T) []T {
	switch {
	case len(s) == 0:
		return nil
	case cap(s) <= len(s)+len(s)/4+turnCapacity:
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}

// findCheckpoint returns a copy of the checkpoint that covers the longest prefix of the body, or nil. It hashes the
// body only once for all checkpoints in the bucket.
func (m *ParseCache) findCheckpoint(key uint64, body []byte) *checkpoint {
	m.mu.Lock()
	list := m.checkpoints[key]
	m.mu.Unlock()
	var best *checkpoint
	var head, digest, found xxhash.Digest
	head.Reset()
	start, hashedTo, headMatches := 0, 0, false
	for _, cp := range list {
		if cp.end > len(body) {
			continue
		}
		if cp.start != start {
			_, _ = head.Write(body[start:cp.start])
			start, hashedTo = cp.start, cp.start
			headMatches = head.Sum64() == cp.head
			digest.Reset()
		}
		if !headMatches {
			continue
		}
		_, _ = digest.Write(body[hashedTo:cp.end])
		hashedTo = cp.end
		if digest.Sum64() == cp.sum {
			best, found = cp, digest
		}
	}
	if best == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cp := *best // cp.isShared: an earlier request has resumed here
	cp.digest, best.isShared = found, true
	if cp.isShared {
		cp.list, cp.results = slices.Clip(cp.list), slices.Clip(cp.results)
	}
	return &cp
}

// storeCheckpoint stores a checkpoint for the scanned body. It replaces source, the checkpoint where the scan resumed,
// unless source is nil.
func (m *ParseCache) storeCheckpoint(key uint64, p *parser, r *Request, source *checkpoint) {
	if len(p.list) == 0 || p.scan.b[p.spans.list.start] != '[' {
		return
	}
	cp := &checkpoint{
		end: int(p.list[len(p.list)-1].end), start: p.spans.list.start, list: clip(p.list), results: clip(p.results),
		systemHash: r.SystemHash, systemFinal: slices.ContainsFunc(p.list, func(e entry) bool { return e.role != RoleSystem }) && p.spans.system == p.prelude.spans.system,
		spans: p.prelude.spans, count: p.countAtListEnd, keys: clip(p.keys[:p.prelude.keys]), tools: clip(p.tools[:p.toolsAtListEnd]),
	}
	if source != nil {
		d := source.digest
		_, _ = d.Write(p.scan.b[source.end:cp.end])
		cp.head, cp.sum = source.head, d.Sum64()
	} else {
		cp.head, cp.sum = xxhash.Sum64(p.scan.b[:cp.start]), xxhash.Sum64(p.scan.b[cp.start:cp.end])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.storeCount++
	cp.lastUsed = m.storeCount
	old := m.checkpoints[key]
	list := make([]*checkpoint, 0, len(old)+1)
	for _, o := range old {
		if (source != nil && o.end == source.end && o.sum == source.sum && o.start == source.start) || (o.end == cp.end && o.sum == cp.sum) {
			m.size -= o.size()
			continue
		}
		list = append(list, o)
	}
	list = append(list, cp)
	m.size += cp.size()
	if len(list) > maxBucketCheckpoints {
		oldest := slices.MinFunc(list, func(a, b *checkpoint) int { return cmp.Compare(a.lastUsed, b.lastUsed) })
		m.size -= oldest.size()
		list = slices.DeleteFunc(list, func(cp *checkpoint) bool { return cp == oldest })
	}
	slices.SortFunc(list, func(a, b *checkpoint) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	m.checkpoints[key] = list
	for other := range m.checkpoints { // evicts random buckets, at the cost of one full parse per conversation
		if m.size <= maxCacheEntries {
			break
		}
		for _, o := range m.checkpoints[other] {
			m.size -= o.size()
		}
		delete(m.checkpoints, other)
	}
}
