package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"precept/session"
)

const (
	echoesPerKey = 4
	mentionSize  = 8 + len(session.ID{})
)

// mention says that a session had the key, and when last.
type mention struct {
	at int64
	id session.ID
}

// FindEcho finds the sessions that the keys went by in, newest first, at most four a key. Keys without any are left out.
func (s *Store) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return read(ctx, s, func(c *conn) (map[session.EchoKey][]session.ID, error) {
		found := map[session.EchoKey][]session.ID{}
		n, err := s.tenant(c, tenant)
		if err != nil || n == 0 {
			return found, err
		}
		for _, k := range keys {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			list, err := mentions(c, echoKey(n, k))
			if err != nil {
				return nil, err
			}
			if len(list) == 0 {
				continue
			}
			ids := make([]session.ID, len(list))
			for i, m := range list {
				ids[i] = m.id
			}
			found[k] = ids
		}
		return found, nil
	})
}

func mentions(c *conn, k int64) (list []mention, err error) {
	_, err = c.one("SELECT v FROM echoes WHERE k = ?", func(row []driver.Value) (err error) {
		list, err = unpackMentions(blob(row[0]))
		return err
	}, k)
	return list, err
}

// echo adds one key of a session and says whether the key is new to it.
func (t *tx) echo(k int64, m mention) (bool, error) {
	fresh, err := inserted(t.exec("INSERT INTO echoes(k, v) VALUES(?, ?) ON CONFLICT DO NOTHING", k, packMentions([]mention{m})))
	if fresh || err != nil {
		return fresh, err
	}
	list, err := mentions(t.conn, k)
	if err != nil {
		return false, err
	}
	list, fresh, changed := mix(list, m)
	if !changed {
		return false, nil
	}
	_, err = t.exec("UPDATE echoes SET v = ? WHERE k = ?", packMentions(list), k)
	return fresh, err
}

// mix adds a mention to a list that is sorted newest first. Ties are broken by id, so that the order of writing does not show.
func mix(list []mention, m mention) (out []mention, fresh, changed bool) {
	if i := slices.IndexFunc(list, func(o mention) bool { return o.id == m.id }); i >= 0 {
		if list[i].at >= m.at {
			return list, false, false
		}
		list = slices.Delete(list, i, i+1)
	} else {
		fresh = true
	}
	i, _ := slices.BinarySearchFunc(list, m, func(a, b mention) int {
		return cmp.Or(cmp.Compare(b.at, a.at), slices.Compare(a.id[:], b.id[:]))
	})
	if i >= echoesPerKey {
		return list, false, false
	}
	list = slices.Insert(list, i, m)
	return list[:min(len(list), echoesPerKey)], fresh, true
}

func packMentions(list []mention) []byte {
	b := make([]byte, 0, len(list)*mentionSize)
	for _, m := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(m.at)) //nolint:gosec // the bits are what counts
		b = append(b, m.id[:]...)
	}
	return b
}

func unpackMentions(b []byte) ([]mention, error) {
	if len(b)%mentionSize != 0 {
		return nil, fmt.Errorf("%w: an echo of %d bytes", ErrCorrupt, len(b))
	}
	list := make([]mention, 0, len(b)/mentionSize+1)
	for ; len(b) > 0; b = b[mentionSize:] {
		list = append(list, mention{int64(binary.BigEndian.Uint64(b)), toID(b[8:mentionSize])}) //nolint:gosec // the bits are what counts
	}
	return list, nil
}

// putEchoes adds the echoes and notes for each session which keys are new to it, in one row.
func (t *tx) putEchoes(echoes []session.Echo) error {
	type chunk struct {
		k    sessionKey
		at   time.Time
		keys []byte
	}
	var order []*chunk
	chunks := map[sessionKey]*chunk{}
	for _, e := range echoes {
		if err := t.alive(); err != nil {
			return err
		}
		tenant, err := t.tenant(e.Tenant)
		if err != nil {
			return err
		}
		k := echoKey(tenant, e.Key)
		fresh, err := t.echo(k, mention{micros(e.At), e.ID})
		if err != nil {
			return err
		}
		if !fresh {
			continue
		}
		sk := sessionKey{tenant, e.ID}
		c := chunks[sk]
		if c == nil {
			c = &chunk{k: sk, at: e.At}
			chunks[sk] = c
			order = append(order, c)
		}
		c.keys = binary.BigEndian.AppendUint64(c.keys, uint64(k)) //nolint:gosec // the bits are what counts
	}
	for _, c := range order {
		sid, err := t.sid(c.k, c.at)
		if err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO echoed(sid, keys) VALUES(?, ?)", sid, c.keys); err != nil {
			return err
		}
	}
	return nil
}

// dropEchoes takes a session out of all its keys.
func (t *tx) dropEchoes(sid int64, id session.ID) error {
	var keys []int64
	err := t.query("SELECT keys FROM echoed WHERE sid = ?", func(row []driver.Value) error {
		for b := blob(row[0]); len(b) >= 8; b = b[8:] {
			keys = append(keys, int64(binary.BigEndian.Uint64(b))) //nolint:gosec // the bits are what counts
		}
		return nil
	}, sid)
	if err != nil {
		return err
	}
	for _, k := range keys {
		list, err := mentions(t.conn, k)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(m mention) bool { return m.id == id })
		if len(list) == 0 {
			_, err = t.exec("DELETE FROM echoes WHERE k = ?", k)
		} else {
			_, err = t.exec("UPDATE echoes SET v = ? WHERE k = ?", packMentions(list), k)
		}
		if err != nil {
			return err
		}
	}
	_, err = t.exec("DELETE FROM echoed WHERE sid = ?", sid)
	return err
}
