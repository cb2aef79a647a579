package outbox

import (
	"maps"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// smallShare of the quota is for tenants with few rows: when the other rows have filled the rest, a tenant may
// take half of the free room at most. A tenant that floods then loses exchanges first.
const smallShare = 8

// shares are the bytes of the rows by tenant. The map holds only tenants with a row.
type shares struct {
	most  int64 // bytes of one tenant; 0: no limit
	fair  bool  // several tenants share the quota
	bytes map[string]int64
}

// counts reports whether the bytes of a tenant have any effect.
func (s *shares) counts() bool { return s.fair || s.most > 0 }

// sum returns the bytes of the rows that a condition selects, by tenant.
func (s *shares) sum(c *sqlite.Conn, where string, args ...any) (map[string]int64, error) {
	sums := map[string]int64{}
	if !s.counts() {
		return sums, nil
	}
	err := sqlitex.Execute(c, "SELECT tenant, sum(length(document)) FROM outbox WHERE "+where+" GROUP BY tenant", &sqlitex.ExecOptions{
		Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			sums[s.ColumnText(0)] = s.ColumnInt64(1)
			return nil
		},
	})
	return sums, err
}

// add adds the bytes of rows that were written.
func (s *shares) add(rows []Row) {
	if !s.counts() {
		return
	}
	for i := range rows {
		s.bytes[rows[i].Tenant] += int64(len(rows[i].Document))
	}
}

// remove subtracts the bytes of rows that were deleted.
func (s *shares) remove(sums map[string]int64) {
	for tenant, n := range sums {
		if s.bytes[tenant] -= n; s.bytes[tenant] <= 0 {
			delete(s.bytes, tenant)
		}
	}
}

// Room says for which tenants of a flush the queue has room.
type Room struct {
	Full    map[string]bool // tenants whose exchanges do not fit into the quota of all rows
	Limited map[string]bool // tenants beyond the quota of one tenant
}

// Over returns the tenants of rows with exchanges that have no room in the queue. The smallest tenants have room
// for the longest time. Without limits for tenants the result is empty: Append then refuses the whole flush.
func (b *Outbox) Over(rows []Row) (r Room, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shares.counts() || b.writer == nil {
		return r, nil
	}
	used, err := b.usedBytes()
	if err != nil {
		return r, classify(err)
	}
	added, after := map[string]int64{}, maps.Clone(b.shares.bytes)
	for i := range rows {
		n := int64(len(rows[i].Document))
		used += n
		after[rows[i].Tenant] += n
		if rows[i].Exchanges > 0 {
			added[rows[i].Tenant] += n
		}
	}
	r = Room{map[string]bool{}, map[string]bool{}}
	free := max(b.quota-used, 0)
	for tenant := range added {
		switch {
		case b.shares.most > 0 && after[tenant] > b.shares.most:
			r.Limited[tenant] = true
		case b.shares.fair && free < b.quota/smallShare && after[tenant] > free/2:
			r.Full[tenant] = true
		}
	}
	return r, nil
}
