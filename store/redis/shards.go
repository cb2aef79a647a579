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

// maxShards is the maximum number of shards of a store, and the default for a new store.
const maxShards = 256

// shardTags returns the hash tags of 256 shards. The slots of a Cluster form 256 ranges of equal size, and each shard
// has its tag in the range with the shard's number. If the nodes of a Cluster have equal numbers of slots, they
// therefore have equal numbers of shards. A tag is the number of the shard in two hex digits and two further
// characters, which are chosen so that the tag is in this range.
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

// location identifies a keyspace independently of the number of shards. The shard is hash modulo this number. The zero
// location is the location of the keys that belong to no tenant.
type location struct {
	kind   locationKind
	tenant string
	hash   byte
}

type locationKind uint8

const (
	commonKeys locationKind = iota // <prefix>:{precept}:
	tenantKeys                     // keys of one tenant in one shard
	shardKeys                      // keys of a shard that belong to no tenant
)

// sessionLocation returns the location of a session. A run is stored as a session under the id of the run.
func sessionLocation(tenant string, id session.ID) location {
	sum := sha256.Sum256(id[:])
	return location{tenantKeys, tenant, sum[0]}
}

// indexLocation returns the location of an index entry with a key of 8 bytes.
func indexLocation(tenant, key string) location { return location{tenantKeys, tenant, key[7]} }

// tenantLocation returns the location of values that a tenant has once: maxima, priors, notes and parked
// feedback.
func tenantLocation(tenant string) location {
	sum := sha256.Sum256([]byte(tenant))
	return location{tenantKeys, tenant, sum[0]}
}

// keyspace holds the prefixes of the keys at one location.
type keyspace struct {
	tenant string
	base   string // prefix of the keys of the tenant in the shard
	// listPrefix is the prefix of the lists of sessions that are due, unsettled or set aside, and of the totals. All
	// tenants of a shard share these lists. In the old layout each tenant has its own lists.
	listPrefix string
	tenantArg  string // first argument of a script: "+" and the tenant; "" in the old layout
}

// keyspace returns the keyspace of a location. It must be called inside of do or lookUp, which read the number of
// shards.
func (s *Store) keyspace(loc location) keyspace { return s.keyspaceOf(int(s.shards.Load()), loc) }

// keyspaceOf returns the keyspace of a location in a store with the given number of shards.
func (s *Store) keyspaceOf(shardCount int, loc location) keyspace {
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

// tenantKeyspace returns the keyspace of a tenant in one shard of a store with the given number of shards.
func (s *Store) tenantKeyspace(shardCount int, tenant string, shard int) keyspace {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant)) // hashed, because the name of a tenant may contain any character
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

// key returns a key at a location.
func (s *Store) key(loc location, name string) string { return s.keyspace(loc).base + name }

// keyspacesOf returns the keyspaces of a tenant, one for each shard.
func (s *Store) keyspacesOf(tenant string) []keyspace {
	n := int(s.shards.Load())
	keyspaces := make([]keyspace, n)
	for i := range keyspaces {
		keyspaces[i] = s.tenantKeyspace(n, tenant, i)
	}
	return keyspaces
}

// shardKeyspaces returns the keyspaces that together have all lists: one for each shard, with only the prefix of its
// lists, or in the old layout one for each tenant.
func (s *Store) shardKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	if n := int(s.shards.Load()); n > 1 {
		keyspaces := make([]keyspace, n)
		for i := range keyspaces {
			keyspaces[i] = keyspace{listPrefix: s.shardListPrefix(n, i)}
		}
		return keyspaces, nil
	}
	return s.keyspacesPerTenant(ctx, c, s.keyspacesOf)
}

// parkedKeyspaces returns the keyspaces of the tenants with parked feedback, or in the old layout of all tenants.
func (s *Store) parkedKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	return s.keyspacesInList(ctx, c, "parked")
}

func (s *Store) keyspacesPerTenant(ctx context.Context, c client, keyspacesOf func(tenant string) []keyspace) (keyspaces []keyspace, err error) {
	names, err := s.readTenants(ctx, c)
	for _, name := range names {
		keyspaces = append(keyspaces, keyspacesOf(name)...)
	}
	return keyspaces, err
}

// allKeyspaces returns the keyspaces in which tenants have sessions, or in the old layout the keyspaces of all tenants.
func (s *Store) allKeyspaces(ctx context.Context, c client) ([]keyspace, error) {
	return s.keyspacesInList(ctx, c, "tenants")
}

// usedKeyspaces returns, for each of the given tenants, the keyspaces in which the tenant has sessions. In the old
// layout it returns the one keyspace of each tenant.
func (s *Store) usedKeyspaces(ctx context.Context, c client, names []string) ([][]keyspace, error) {
	keyspaces := make([][]keyspace, len(names))
	if s.shards.Load() == 1 {
		for i, name := range names {
			keyspaces[i] = s.keyspacesOf(name)
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

// keyspacesInList returns the keyspaces of the tenants in a list that each shard has, such as the list 'parked' of the
// tenants with parked feedback. In the old layout it returns the keyspaces of all tenants.
func (s *Store) keyspacesInList(ctx context.Context, c client, list string) ([]keyspace, error) {
	if s.shards.Load() == 1 {
		return s.keyspacesPerTenant(ctx, c, s.keyspacesOf)
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

// tenantOf returns the tenant of a member of a list. In a list of a shard, a member ends with its tenant, which the
// caller passes as rest. In the old layout the tenant is the tenant of the keyspace, because each tenant has its own
// lists.
func (k keyspace) tenantOf(rest string) string {
	if k.base == "" {
		return rest
	}
	return k.tenant
}

// readLayout reads the number of shards. In a new store it stores Options.Shards. If Redis has lost the number,
// readLayout stores the number that this Store has read before. A store of an earlier release keeps its layout, one
// shard for each tenant, until Migrate.
func (s *Store) readLayout(ctx context.Context, c client) error {
	n, err := s.script(ctx, c, "layout", location{}, s.shards.Load(), s.options.Shards).Int()
	if err != nil {
		return err
	}
	if n < 1 || n > maxShards {
		return fmt.Errorf("%w: the store has %d shards", ErrCorrupt, n)
	}
	before := s.shards.Load()
	if before > 1 && before != int64(n) { // a store in the old layout may move to shards
		return fmt.Errorf("%w: the store has %d shards, and had %d before; restore Redis from a backup, or restart precept if Redis was emptied on purpose", ErrCorrupt, n, before)
	}
	s.shards.Store(int64(n))
	s.layoutUncertain.Store(false)
	return nil
}
