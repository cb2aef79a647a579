package learn

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// pastSessions reads the stored sessions with which transcripts are compared.
type pastSessions interface {
	session.Finder
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error)
}

// isRecorded reports whether precept recorded a conversation live. It searches for a live session with the
// conversation's name, then for one with a random id from the transcript, and finally for one with the same opening
// (the hash of the first words) and the same replies.
func (im *Importer) isRecorded(ctx context.Context, tenant string, transcript detect.Transcript, cleansed []sample.Exchange) (bool, error) {
	opening := session.OpeningHash(transcript.Request)
	if found, err := im.matchesName(ctx, tenant, transcript.ID, opening); found || err != nil {
		return found, err
	}
	if found, err := im.matchesUniqueID(ctx, tenant, transcript); found || err != nil {
		return found, err
	}
	if opening == 0 || len(normalizedReplies(cleansed)) == 0 {
		return false, nil
	}
	return im.matchesReplies(ctx, tenant, opening, cleansed)
}

// matchesName reports whether a live session has the transcript's name. If the name may be shared, the openings must
// also be equal.
func (im *Importer) matchesName(ctx context.Context, tenant, transcript string, opening uint64) (bool, error) {
	for _, name := range sessionNames(transcript) {
		key := session.TenantEchoKey(tenant, "s:"+name)
		idsByKey, err := im.Sessions.FindEcho(ctx, tenant, []session.EchoKey{key})
		if err != nil {
			return false, err
		}
		for _, id := range append(session.IDsByName(tenant, name), idsByKey[key]...) {
			rec, err := im.liveRecord(ctx, tenant, id)
			if err != nil {
				return false, err
			}
			if rec != nil && (session.IsUniqueName(name) || opening != 0 && rec.Thread.FirstWords == opening) {
				return true, nil
			}
		}
	}
	return false, nil
}

// matchesUniqueID reports whether a live session has a random id from the transcript.
func (im *Importer) matchesUniqueID(ctx context.Context, tenant string, transcript detect.Transcript) (bool, error) {
	keys := session.UniqueEchoes(tenant, transcript.Request)
	if len(keys) == 0 {
		return false, nil
	}
	found, err := im.Sessions.FindEcho(ctx, tenant, keys)
	if err != nil {
		return false, err
	}
	for _, ids := range found {
		for _, id := range ids {
			if rec, err := im.liveRecord(ctx, tenant, id); rec != nil || err != nil {
				return rec != nil, err
			}
		}
	}
	return false, nil
}

func (im *Importer) matchesReplies(ctx context.Context, tenant string, opening uint64, cleansed []sample.Exchange) (bool, error) {
	candidates, err := im.Openings.find(ctx, im.Sessions, tenant, opening)
	if err != nil {
		return false, err
	}
	for _, id := range candidates {
		list, err := im.Sessions.Exchanges(ctx, tenant, id)
		if err != nil {
			return false, err
		}
		if haveSameReplies(list, cleansed) {
			return true, nil
		}
	}
	return false, nil
}

// liveRecord returns a session's record, or nil if it is missing or imported.
func (im *Importer) liveRecord(ctx context.Context, tenant string, id session.ID) (*session.Record, error) {
	row, ok, err := im.Sessions.Session(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil || rec.Identity.Method == session.ByImport {
		return nil, err
	}
	return rec, nil
}

// uuidEnd matches a UUID at a name's end. Codex uses UUID as a session's name, and rollout-TIME-UUID as the history
// file's name.
var uuidEnd = regexp.MustCompile(`-([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$`)

// sessionNames returns the session names that a client may have sent for a transcript id.
func sessionNames(id string) (names []string) {
	if id = session.NormalizeName(id); id != "" {
		names = append(names, id)
	}
	if m := uuidEnd.FindStringSubmatch(id); m != nil {
		names = append(names, m[1])
	}
	return names
}

// haveSameReplies reports whether the longer conversation has the shorter one's replies, in order. It ignores white
// space, because an agent's history may divide a reply differently.
func haveSameReplies(live, past []sample.Exchange) bool {
	shorter, longer := normalizedReplies(live), normalizedReplies(past)
	if len(shorter) > len(longer) {
		shorter, longer = longer, shorter
	}
	if len(shorter) == 0 {
		return false
	}
	for _, reply := range shorter {
		pos := slices.Index(longer, reply)
		if pos < 0 {
			return false
		}
		longer = longer[pos+1:]
	}
	return true
}

func normalizedReplies(list []sample.Exchange) (all []string) {
	for i := range list {
		var b strings.Builder
		b.WriteString(list[i].Reply.Text)
		for _, c := range list[i].Reply.Calls {
			b.WriteString("\x00" + c.Name + "\x00" + c.Args)
		}
		text := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, b.String())
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// OpeningIndex finds live sessions by a hash over the first words. The first find call reads all of a tenant's
// sessions. Later calls read only newer sessions, so importing many files stays fast. OpeningIndex is safe for
// concurrent use.
type OpeningIndex struct {
	mu        sync.Mutex // held while reading the backend
	tenant    string
	newest    time.Time // start of the newest session read
	byOpening map[uint64][]session.ID
	count     int // sessions in byOpening
}

const (
	maxOpenings     = 1 << 20          // sessions in an OpeningIndex
	openingsOverlap = 10 * time.Minute // longest time from a session's start until it is stored
	openingsPage    = 500              // sessions per read
)

func (o *OpeningIndex) find(ctx context.Context, from pastSessions, tenant string, opening uint64) ([]session.ID, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byOpening == nil || o.tenant != tenant {
		o.tenant, o.newest, o.byOpening, o.count = tenant, time.Time{}, map[uint64][]session.ID{}, 0
	}
	within := session.ListRange{Limit: openingsPage}
	if !o.newest.IsZero() {
		within.Since = o.newest.Add(-openingsOverlap)
	}
	newest := o.newest
	for {
		page, err := from.ListSessions(ctx, tenant, within)
		if err != nil {
			return nil, err
		}
		for i := range page.List {
			o.add(&page.List[i].Row)
			if at := page.List[i].Row.Started; at.After(newest) {
				newest = at
			}
		}
		if within.After = page.Next; page.Next == "" || o.count >= maxOpenings {
			break
		}
	}
	o.newest = newest
	return slices.Clone(o.byOpening[opening]), nil
}

// firstWordsField is a JSON key in session rows, but not in the rows of imported sessions and runs.
const firstWordsField = `"first_words":`

// add reads a row without decoding it. No string in the row contains firstWordsField, because JSON escapes quotation
// marks.
func (o *OpeningIndex) add(row *session.Row) {
	_, rest, ok := bytes.Cut(row.Data, []byte(firstWordsField))
	if !ok {
		return
	}
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	words, err := strconv.ParseUint(string(rest[:max(end, 0)]), 10, 64)
	if err != nil || slices.Contains(o.byOpening[words], row.ID) {
		return
	}
	o.byOpening[words] = append(o.byOpening[words], row.ID)
	o.count++
}
