package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// maxShards is the maximum shard count in a store, and the default.
const maxShards = 256

// shardTags returns hash tags for 256 shards. A Cluster's slots are divided into 256 equal ranges with one shard each,
// so that nodes with equal slot counts have equal shard counts. A tag is the shard number in two hex digits, followed
// by two characters that move the tag's slot into the shard's range.
func shardTags() (tags [maxShards]string) {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	for shard := range tags {
		for i := 0; i < len(alphabet)*len(alphabet) && tags[shard] == ""; i++ {
			tag := fmt.Sprintf("%02x%c%c", shard, alphabet[i/len(alphabet)], alphabet[i%len(alphabet)])
			if int(crc16(tag)%16384)/64 == shard {
				tags[shard] = tag
			}
		}
	}
	return tags
}

// crc16 returns the checksum by which a Cluster assigns a hash tag to a slot (CRC-16/XMODEM).
func crc16(text string) (crc uint16) {
	for i := range len(text) {
		crc ^= uint16(text[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// location identifies a keyspace for any number of shards. The shard is hash modulo that number. The zero location has
// the keys that belong to no tenant.
type location struct {
	kind   locationKind
	tenant string
	hash   byte
}

type locationKind uint8

const (
	commonKeys locationKind = iota // <prefix>:{precept}:
	tenantKeys                     // one tenant's keys in one shard
	shardKeys                      // a shard's keys without a tenant
)

func sessionLocation(tenant string, id session.ID) location {
	sum := sha256.Sum256(id[:])
	return location{tenantKeys, tenant, sum[0]}
}

// indexLocation returns the location for an index entry. key is an echo key or a sample id's digest.
func indexLocation(tenant, key string) location { return location{tenantKeys, tenant, key[7]} }

// tenantLocation returns the location for a tenant's values outside sessions: maxima, priors, notes and parked
// feedback.
func tenantLocation(tenant string) location {
	sum := sha256.Sum256([]byte(tenant))
	return location{tenantKeys, tenant, sum[0]}
}

// keyspace is a group of keys in one shard: a tenant's keys, or the keys without a tenant. The key names after base:
//   - for each session ID: s:ID (row), x:ID (exchanges), m:ID (samples), f:ID (feedback) and k:ID (index entries)
//   - sorted sets of sessions: seen (by last use), order (by first write) and told (by newest feedback)
//   - samples (the sample stream), counters and c: (counter rows), parked and p: (parked feedback)
//
// The key names after listPrefix are t (totals), due, unsettled, aside (sessions set aside), gone (unfinished
// deletions), tenants, moved and log (settlements).
type keyspace struct {
	tenant string
	base   string // key prefix for the tenant in the shard
	// listPrefix is the key prefix for the totals and for the lists of sessions that are due, unsettled or set aside.
	// The tenants in a shard share these keys, except in the old layout (one shard for each tenant).
	listPrefix string
	tenantArg  string // a script's first argument: "+" and the tenant; "" in the old layout
}

// keyspace returns a location's keyspace. Call it inside do or lookUp, which read the shard count.
func (s *Store) keyspace(loc location) keyspace { return s.resolveKeyspace(int(s.shards.Load()), loc) }

func (s *Store) resolveKeyspace(shardCount int, loc location) keyspace {
	switch {
	case loc.kind == commonKeys || loc.kind == shardKeys && shardCount == 1:
		base := s.commonKey("")
		return keyspace{base: base, listPrefix: base}
	case loc.kind == shardKeys:
		base := s.shardListPrefix(shardCount, int(loc.hash)%shardCount)
		return keyspace{base: base, listPrefix: base}
	default:
		return s.tenantKeyspace(shardCount, loc.tenant, int(loc.hash)%shardCount)
	}
}

func (s *Store) tenantKeyspace(shardCount int, tenant string, shard int) keyspace {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant)) // hashed, because the name can contain any character
	tag := hex.EncodeToString(sum[:8])
	if shardCount == 1 {
		base := s.prefix + ":{" + tag + "}:"
		return keyspace{tenant: tenant, base: base, listPrefix: base}
	}
	return keyspace{tenant: tenant, base: s.shardBase(shardCount, shard) + tag + ":", listPrefix: s.shardListPrefix(shardCount, shard), tenantArg: "+" + tenant}
}

func (s *Store) shardBase(shardCount, shard int) string {
	return s.prefix + ":{" + s.tags[shard*maxShards/shardCount] + "}:"
}

func (s *Store) shardListPrefix(shardCount, shard int) string {
	return s.shardBase(shardCount, shard) + "all:"
}

func (s *Store) key(loc location, name string) string { return s.keyspace(loc).base + name }

func (s *Store) tenantKeyspaces(tenant string) []keyspace {
	n := int(s.shards.Load())
	keyspaces := make([]keyspace, n)
	for i := range keyspaces {
		keyspaces[i] = s.tenantKeyspace(n, tenant, i)
	}
	return keyspaces
}

// shardKeyspaces returns the keyspaces that together have all lists: one for each shard, with only the list prefix, or
// in the old layout one for each tenant.
func (s *Store) shardKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	if n := int(s.shards.Load()); n > 1 {
		keyspaces := make([]keyspace, n)
		for i := range keyspaces {
			keyspaces[i] = keyspace{listPrefix: s.shardListPrefix(n, i)}
		}
		return keyspaces, nil
	}
	return s.keyspacesPerTenant(ctx, c, s.tenantKeyspaces)
}

// parkedKeyspaces returns the keyspaces of tenants with parked feedback, or in the old layout of all tenants.
func (s *Store) parkedKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	return s.keyspacesInList(ctx, c, "parked")
}

func (s *Store) keyspacesPerTenant(ctx context.Context, c client, perTenant func(tenant string) []keyspace) (keyspaces []keyspace, err error) {
	names, err := s.readTenants(ctx, c)
	for _, name := range names {
		keyspaces = append(keyspaces, perTenant(name)...)
	}
	return keyspaces, err
}

// allKeyspaces returns the keyspaces in which tenants have sessions, or in the old layout the keyspaces of all tenants.
func (s *Store) allKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	return s.keyspacesInList(ctx, c, "tenants")
}

// usedKeyspaces returns the keyspaces in which each tenant has sessions, or in the old layout each tenant's keyspace.
func (s *Store) usedKeyspaces(ctx context.Context, c client, names []string) ([][]keyspace, error) {
	keyspaces := make([][]keyspace, len(names))
	if s.shards.Load() == 1 {
		for i, name := range names {
			keyspaces[i] = s.tenantKeyspaces(name)
		}
		return keyspaces, nil
	}
	lists, err := s.shardKeyspaces(ctx, c)
	if err != nil {
		return nil, err
	}
	memberships, err := runPipelined(ctx, c, lists, func(p goredis.Pipeliner, ks keyspace) *goredis.BoolSliceCmd {
		return p.SMIsMember(ctx, ks.listPrefix+"tenants", toArgs(names)...)
	})
	for shard := range memberships {
		for i, isUsed := range memberships[shard].Val() {
			if isUsed {
				keyspaces[i] = append(keyspaces[i], s.tenantKeyspace(len(lists), names[i], shard))
			}
		}
	}
	return keyspaces, err
}

// keyspacesInList returns the keyspaces for the tenants in a list that each shard has, such as 'parked', or in the old
// layout for all tenants.
func (s *Store) keyspacesInList(ctx context.Context, c client, list string) ([]keyspace, error) {
	if s.shards.Load() == 1 {
		return s.keyspacesPerTenant(ctx, c, s.tenantKeyspaces)
	}
	lists, err := s.shardKeyspaces(ctx, c)
	if err != nil {
		return nil, err
	}
	names, err := runPipelined(ctx, c, lists, func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
		return p.SMembers(ctx, ks.listPrefix+list)
	})
	var keyspaces []keyspace
	for i := range names {
		tenants := names[i].Val()
		slices.Sort(tenants)
		for _, name := range tenants {
			keyspaces = append(keyspaces, s.tenantKeyspace(len(lists), name, i))
		}
	}
	return keyspaces, err
}

// memberTenant returns the tenant for a list member. In a shard the tenant is the end of the member (rest). In the old
// layout the list belongs to a single tenant.
func (k keyspace) memberTenant(rest string) string {
	if k.base == "" {
		return rest
	}
	return k.tenant
}

// readLayout reads the shard count. If Redis has none, readLayout stores Options.Shards in a new store, or the count
// that this Store has read before. An earlier release's store keeps one shard for each tenant until Migrate.
func (s *Store) readLayout(ctx context.Context, c client) error {
	n, err := s.script(ctx, c, "layout", location{}, s.shards.Load(), s.options.Shards).Int()
	if err != nil {
		return err
	}
	if n < 1 || n > maxShards {
		return fmt.Errorf("%w: the store has %d shards", ErrCorrupt, n)
	}
	before := s.shards.Load()
	if before > 1 && before != int64(n) { // a store in the old layout can move to shards
		return fmt.Errorf("%w: the store has %d shards, and had %d before; restore Redis from a backup, or restart precept if Redis was emptied on purpose", ErrCorrupt, n, before)
	}
	s.shards.Store(int64(n))
	s.layoutUncertain.Store(false)
	return nil
}
