package outbox

import (
	"maps"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// reserveDivisor reserves 1/reserveDivisor of the quota for tenants with few bytes. When less than this share is free,
// a tenant's rows must not exceed half the free bytes. The largest tenant therefore loses exchanges first.
const reserveDivisor = 8

type tenantUsage struct {
	maxBytes    int64 // largest total row size per tenant; 0 means no limit
	multiTenant bool
	tenantBytes map[string]int64
}

func (s *tenantUsage) isEnabled() bool { return s.multiTenant || s.maxBytes > 0 }

// bytesByTenant returns the number of bytes per tenant in the rows selected by an SQL condition, or an empty map if
// bytes are not counted.
func (s *tenantUsage) bytesByTenant(c *sqlite.Conn, where string, args ...any) (map[string]int64, error) {
	sums := map[string]int64{}
	if !s.isEnabled() {
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

func (s *tenantUsage) add(rows []Row) {
	if !s.isEnabled() {
		return
	}
	for i := range rows {
		s.tenantBytes[rows[i].Tenant] += int64(len(rows[i].Document))
	}
}

func (s *tenantUsage) remove(sums map[string]int64) {
	for tenant, n := range sums {
		if s.tenantBytes[tenant] -= n; s.tenantBytes[tenant] <= 0 {
			delete(s.tenantBytes, tenant)
		}
	}
}

// LargestTenants returns the tenants whose rows have at least minBytes, or none if these tenants together have less
// than half of all bytes.
func (o *Outbox) LargestTenants(minBytes int64) (tenants []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var largeBytes, allBytes int64
	for tenant, n := range o.usage.tenantBytes {
		allBytes += n
		if n >= minBytes {
			largeBytes += n
			tenants = append(tenants, tenant)
		}
	}
	if 2*largeBytes < allBytes {
		return nil
	}
	return tenants
}

// Refused lists tenants with new exchanges that do not fit into the queue.
type Refused struct {
	OverQuota       map[string]bool // the exchanges do not fit into the quota for all rows
	OverTenantQuota map[string]bool // the rows exceed the quota for one tenant
}

// RefusedTenants returns the tenants whose exchanges in rows do not fit into the queue. When the queue becomes full,
// the largest tenants are refused first. If bytes are not counted by tenant, the result is empty, and Append can refuse
// the whole flush.
func (o *Outbox) RefusedTenants(rows []Row) (r Refused, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.usage.isEnabled() || o.writer == nil {
		return r, nil
	}
	used, err := o.usedBytes()
	if err != nil {
		return r, classifyError(err)
	}
	added, after := map[string]int64{}, maps.Clone(o.usage.tenantBytes)
	for i := range rows {
		n := int64(len(rows[i].Document))
		used += n
		after[rows[i].Tenant] += n
		if rows[i].Exchanges > 0 {
			added[rows[i].Tenant] += n
		}
	}
	r = Refused{map[string]bool{}, map[string]bool{}}
	free := max(o.quota-used, 0)
	for tenant := range added {
		switch {
		case o.usage.maxBytes > 0 && after[tenant] > o.usage.maxBytes:
			r.OverTenantQuota[tenant] = true
		case o.usage.multiTenant && free < o.quota/reserveDivisor && after[tenant] > free/2:
			r.OverQuota[tenant] = true
		}
	}
	return r, nil
}
