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

// maxShards is the number of shards of a new store.
const maxShards = 256

// shardTags returns the hash tags of 256 shards. The slots of a Cluster form 256 ranges of equal
// size, and tag r is in range r, so that a Cluster whose nodes have equal numbers of slots
// gives each node an equal number of shards. A tag is r in two hex digits and two further characters.
func shardTags() (tags [maxShards]string) {
	const more = "0123456789abcdefghijklmnopqrstuvwxyz"
	for r := range tags {
		for i := 0; i < len(more)*len(more) && tags[r] == ""; i++ {
			tag := fmt.Sprintf("%02x%c%c", r, more[i/len(more)], more[i%len(more)])
			if int(crc16(tag)%16384)/64 == r {
				tags[r] = tag
			}
		}
	}
	return tags
}

// crc16 is the checksum by which a Cluster assigns a tag to a slot (CRC-16/XMODEM).
func crc16(text string) (c uint16) {
	for i := range len(text) {
		c ^= uint16(text[i]) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
	}
	return c
}

// spot names the place of a key before the number of shards is known: the tenant and the hash whose
// remainder is the shard. The zero spot is the place of the keys that belong to no tenant.
type spot struct {
	kind   spotKind
	tenant string
	hash   byte
}

type spotKind uint8

const (
	spotCommon spotKind = iota // <prefix>:{precept}:
	spotTenant                 // keys of one tenant in one shard
	spotMarks                  // keys of a shard that belong to no tenant
)

// sessionSpot returns the spot of a session. A run is stored as a session under the id of the run.
func sessionSpot(tenant string, id session.ID) spot {
	sum := sha256.Sum256(id[:])
	return spot{spotTenant, tenant, sum[0]}
}

// indexSpot returns the spot of an index entry, by the 8 bytes of its key.
func indexSpot(tenant, key string) spot { return spot{spotTenant, tenant, key[7]} }

// tenantSpot returns the spot of values that a tenant has once: maxima, priors, notes and parked
// feedback.
func tenantSpot(tenant string) spot {
	sum := sha256.Sum256([]byte(tenant))
	return spot{spotTenant, tenant, sum[0]}
}

// part is the prefix of the keys at one spot.
type part struct {
	tenant string
	base   string // prefix of the keys of the tenant in the shard
	// lists is the prefix of the lists of sessions that are due, unsettled or set aside, and of totals:
	// one list for all tenants of a shard. In the old layout each tenant has own lists.
	lists string
	head  string // first argument of a script: "+" and the tenant; "" in the old layout
}

// part returns the keys of a spot. The number of shards is known inside of do and lookUp.
func (s *Store) part(sp spot) part { return s.partOf(int(s.shards.Load()), sp) }

// partOf returns the keys of a spot in a store of n shards.
func (s *Store) partOf(n int, sp spot) part {
	switch {
	case sp.kind == spotCommon || sp.kind == spotMarks && n == 1:
		base := s.commonKey("")
		return part{base: base, lists: base}
	case sp.kind == spotMarks:
		base := s.shardLists(n, int(sp.hash)%n)
		return part{base: base, lists: base}
	default:
		return s.partIn(n, sp.tenant, int(sp.hash)%n)
	}
}

// partIn returns the keys of a tenant in a shard of a store of n shards.
func (s *Store) partIn(n int, tenant string, shard int) part {
	sum := sha256.Sum256([]byte("precept tenant\x00" + tenant)) // hashed, because a name may hold any character
	tag := hex.EncodeToString(sum[:8])
	if n == 1 {
		base := s.prefix + ":{" + tag + "}:"
		return part{tenant: tenant, base: base, lists: base}
	}
	return part{tenant: tenant, base: s.shardBase(n, shard) + tag + ":", lists: s.shardLists(n, shard), head: "+" + tenant}
}

func (s *Store) shardBase(n, shard int) string {
	return s.prefix + ":{" + s.tags[shard*maxShards/n] + "}:"
}

func (s *Store) shardLists(n, shard int) string { return s.shardBase(n, shard) + "all:" }

// key returns a key at a spot.
func (s *Store) key(sp spot, name string) string { return s.part(sp).base + name }

// partsOf returns the parts of a tenant, one for each shard.
func (s *Store) partsOf(tenant string) []part {
	n := int(s.shards.Load())
	parts := make([]part, n)
	for i := range parts {
		parts[i] = s.partIn(n, tenant, i)
	}
	return parts
}

// lists returns the parts with all lists: one for each shard, without a tenant, or in the old layout
// one for each tenant.
func (s *Store) lists(ctx context.Context, c client) ([]part, error) {
	if n := int(s.shards.Load()); n > 1 {
		parts := make([]part, n)
		for i := range parts {
			parts[i] = part{lists: s.shardLists(n, i)}
		}
		return parts, nil
	}
	return s.perTenant(ctx, c, s.partsOf)
}

// parkedParts returns the parts of the tenants with parked feedback; in the old layout of all tenants.
func (s *Store) parkedParts(ctx context.Context, c client) ([]part, error) {
	return s.listedParts(ctx, c, "parked")
}

func (s *Store) perTenant(ctx context.Context, c client, partsOf func(tenant string) []part) (parts []part, err error) {
	names, err := s.tenants(ctx, c)
	for _, name := range names {
		parts = append(parts, partsOf(name)...)
	}
	return parts, err
}

// allParts returns the parts of all tenants with sessions; in the old layout of all tenants.
func (s *Store) allParts(ctx context.Context, c client) ([]part, error) {
	return s.listedParts(ctx, c, "tenants")
}

// usedParts returns the parts in which each of some tenants has sessions; in the old layout all parts.
func (s *Store) usedParts(ctx context.Context, c client, names []string) ([][]part, error) {
	parts := make([][]part, len(names))
	if s.shards.Load() == 1 {
		for i, name := range names {
			parts[i] = s.partsOf(name)
		}
		return parts, nil
	}
	lists, err := s.lists(ctx, c)
	if err != nil {
		return nil, err
	}
	used, err := piped(ctx, c, lists, func(p goredis.Pipeliner, in part) *goredis.BoolSliceCmd {
		return p.SMIsMember(ctx, in.lists+"tenants", anys(names)...)
	})
	for shard := range used {
		for i, isUsed := range used[shard].Val() {
			if isUsed {
				parts[i] = append(parts[i], s.partIn(len(lists), names[i], shard))
			}
		}
	}
	return parts, err
}

// listedParts returns the parts of the tenants in a list that each shard has; in the old layout of all
// tenants.
func (s *Store) listedParts(ctx context.Context, c client, list string) ([]part, error) {
	if s.shards.Load() == 1 {
		return s.perTenant(ctx, c, s.partsOf)
	}
	lists, err := s.lists(ctx, c)
	if err != nil {
		return nil, err
	}
	names, err := piped(ctx, c, lists, func(p goredis.Pipeliner, in part) *goredis.StringSliceCmd {
		return p.SMembers(ctx, in.lists+list)
	})
	var parts []part
	for i := range names {
		tenants := names[i].Val()
		slices.Sort(tenants)
		for _, name := range tenants {
			parts = append(parts, s.partIn(len(lists), name, i))
		}
	}
	return parts, err
}

// owner returns the tenant of a member of a list: the rest behind the fixed part of a member.
func (p part) owner(rest string) string {
	if p.base == "" {
		return rest
	}
	return p.tenant
}

// readLayout reads the number of shards, and creates the number in a new store. A store of an earlier
// release keeps its layout, one shard for each tenant, until Migrate. The number that this Store has read before
// replaces a number that Redis has lost.
func (s *Store) readLayout(ctx context.Context, c client) error {
	n, err := s.script(ctx, c, "layout", spot{}, s.shards.Load(), s.opt.Shards).Int()
	if err != nil {
		return err
	}
	if n < 1 || n > maxShards {
		return fmt.Errorf("%w: the store has %d shards", ErrCorrupt, n)
	}
	known := s.shards.Load()
	if known > 1 && known != int64(n) { // a store in the old layout may move to shards
		return fmt.Errorf("%w: the store has %d shards, and had %d before; restore Redis from a backup, or restart precept if Redis was emptied on purpose", ErrCorrupt, n, known)
	}
	s.shards.Store(int64(n))
	s.doubt.Store(false)
	return nil
}
