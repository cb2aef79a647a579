package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// replicaWait is the longest wait for one server's replicas.
const replicaWait = time.Second

// ErrUnreplicated reports that Redis has made a change, but no Redis replica has acknowledged the change.
var ErrUnreplicated = errors.New("Redis has made the change, but no Redis replica has acknowledged the change in time; if Redis fails over now, repeat the change") //nolint:staticcheck // Redis is a name, with a capital letter

// AwaitReplicas waits until a Redis replica has acknowledged all earlier writes, so that a failover loses none of these
// writes. In a Cluster, each master must have such a replica. AwaitReplicas does not wait for a server without
// connected replicas.
func (s *Store) AwaitReplicas(ctx context.Context) error {
	acknowledged := true
	err := s.do(ctx, "wait for a replica", func(c client) error {
		masters, err := s.masters(ctx, c)
		for master, key := range masters {
			var ok bool
			if err == nil {
				ok, err = s.awaitReplica(ctx, master, key)
				acknowledged = acknowledged && ok
			}
		}
		return err
	})
	if err == nil && !acknowledged {
		err = ErrUnreplicated
	}
	return err
}

// masters returns the servers that execute writes, each with a key that this server stores.
func (s *Store) masters(ctx context.Context, c client) (map[*goredis.Client]string, error) {
	const name = "replicated"
	masters := map[*goredis.Client]string{}
	switch c := c.(type) {
	case *goredis.ClusterClient:
		for shard := range maxShards {
			key := s.shardBase(maxShards, shard) + name
			master, err := c.MasterForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			masters[master] = key
		}
	case *goredis.Client:
		masters[c] = s.commonKey(name)
	}
	return masters, nil
}

// awaitReplica writes key, and waits for a replica. WAIT applies to the writes on one connection, but a replica that
// has the last write also has all earlier writes.
func (s *Store) awaitReplica(ctx context.Context, master *goredis.Client, key string) (acknowledged bool, err error) {
	info, err := master.Info(ctx, "replication").Result()
	if err != nil || strings.Contains(info, "\nconnected_slaves:0\r") {
		return err == nil, err
	}
	pipe := master.Pipeline()
	pipe.Set(ctx, key, "", time.Minute)
	wait := pipe.Do(ctx, "WAIT", 1, durationMillis(min(replicaWait, s.options.Timeout/2)))
	if err = readPipeline(ctx, pipe); err != nil {
		return false, err
	}
	replicas, err := wait.Int()
	return replicas > 0, err
}
