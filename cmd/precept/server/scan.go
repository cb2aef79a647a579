package server

import (
	"context"
	"errors"
	"time"

	"precept/inject/rules"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
)

// maxScannedSessions bounds how many sessions ScanRules searches for files such as CLAUDE.md and AGENTS.md.
const maxScannedSessions = 2000

// ScanRules finds the rules files in a tenant's newest captured sessions.
func ScanRules(ctx context.Context, reader StoreReader, tenant string, now time.Time) (*rules.Scan, error) {
	var scan rules.Scan
	err := newestFirst(now, func(since, until time.Time) error {
		return reader.EachSession(ctx, tenant, since, until, func(r session.Row, a session.SettledState) error {
			s, err := CapturedSession(ctx, reader, r, a)
			if err != nil || s == nil {
				return err
			}
			head := headPassages(&s.Exchanges[0])
			rec, err := session.Decode(r.ID, r.Data)
			if err != nil || len(head) == 0 {
				return nil //nolint:nilerr // a session whose row cannot be decoded is skipped
			}
			scan.Add(head, int64(rec.Thread.Turns), rec.Thread.Used.Input)
			if scan.Sessions >= maxScannedSessions {
				return errStopScan
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errStopScan) {
		return nil, err
	}
	return &scan, nil
}

// headPassages returns the passages at the start of a session's first exchange, where agents send rules files, or nil
// if x is a later exchange.
func headPassages(x *sample.Exchange) []wire.Passage {
	if x.FirstNew != 0 {
		return nil
	}
	items := make([][]byte, len(x.New))
	for i := range x.New {
		items[i] = x.New[i]
	}
	return wire.StoredHead(wire.DialectNamed(x.Dialect), x.System, items)
}
