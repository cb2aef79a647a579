package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// Store errors, in addition to session.ErrInvalid, which is permanent, and session.ErrParkingFull. An error that wraps
// session.ErrUnavailable is temporary.
var (
	// ErrDown reports that Redis cannot be reached or does not answer in time.
	ErrDown = fmt.Errorf("Redis cannot be reached: %w", session.ErrUnavailable) //nolint:staticcheck // Redis is a name, with a capital letter
	// ErrBusy reports that Redis accepts no writes now, because Redis is loading data, is failing over, or is a
	// replica.
	ErrBusy = fmt.Errorf("Redis rejects writes at the moment: %w", session.ErrUnavailable) //nolint:staticcheck // see ErrDown
	// ErrFull reports that Redis has reached maxmemory.
	ErrFull = fmt.Errorf("Redis is full (maxmemory); give it more memory, or keep less with learning.retention: %w", session.ErrUnavailable) //nolint:staticcheck // see ErrDown
	// ErrDisk reports that Redis rejects all writes and PING, because Redis cannot write to its disk. Reads succeed.
	ErrDisk = fmt.Errorf("Redis cannot write to its disk, and rejects all writes; free disk space, then run BGSAVE in Redis: %w", session.ErrUnavailable) //nolint:staticcheck // see ErrDown
	// ErrAuth reports that Redis refuses the user or the password.
	ErrAuth = fmt.Errorf("Redis refuses the user or the password; check store.url: %w", session.ErrUnavailable) //nolint:staticcheck // see ErrDown
	// ErrTLS reports a failed TLS handshake, for example because the server's or precept's certificate is not trusted.
	ErrTLS = fmt.Errorf("the TLS handshake with Redis failed: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrACL reports that the Redis user lacks a permission.
	ErrACL = fmt.Errorf("the Redis user lacks a permission; docs/OPERATIONS.md lists the permissions that precept needs: %w", session.ErrUnavailable)
	// ErrRefused reports that Redis refuses a command for a reason without a separate error, for example because the
	// address names a different server type.
	ErrRefused = fmt.Errorf("Redis refuses a command: %w", session.ErrUnavailable) //nolint:staticcheck // see ErrDown
	// ErrCorrupt reports that a value in Redis was not written by precept.
	ErrCorrupt = fmt.Errorf("a value in Redis was not written by precept: %w", session.ErrDamaged)
	// ErrClosed reports that the store is closed.
	ErrClosed = errors.New("the store is closed")
	// ErrURL reports an invalid Redis address, or an invalid parameter in the address.
	ErrURL = errors.New("cannot be used as a Redis address")
)

func classifyError(ctx context.Context, err error) error {
	if err == nil || isAbsent(err) {
		return err
	}
	var reply goredis.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, goredis.ErrClosed):
		return ErrClosed
	case errors.Is(err, goredis.Nil): // no Sentinel knows the master name
		return fmt.Errorf("%w: %w; no Sentinel knows the group name; correct master in store.url", ErrDown, err)
	case errors.As(err, &reply):
		return classifyReply(err, reply.Error())
	case isClassified(err):
		return err
	}
	if tlsErr := classifyTLSError(err); tlsErr != nil {
		return tlsErr
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// isAbsent reports whether err is an unwrapped goredis.Nil, which means that a value does not exist. A wrapped
// goredis.Nil means that a Sentinel does not know the master name.
func isAbsent(err error) bool { return err == goredis.Nil } //nolint:errorlint // see above

func isClassified(err error) bool {
	kinds := []error{session.ErrUnavailable, session.ErrInvalid, session.ErrParkingFull, ErrCorrupt, ErrClosed}
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// classifyReply wraps a server's error reply in the matching error. Redis puts the code for a script error into the
// middle of the text.
func classifyReply(err error, text string) error {
	hasCode := func(words ...string) bool {
		for _, w := range words {
			if strings.HasPrefix(text, w) || strings.Contains(text, ": "+w) || strings.Contains(text, "-"+w) {
				return true
			}
		}
		return false
	}
	kind := error(nil)
	switch {
	case hasCode("WRONGPASS", "NOAUTH", "ERR invalid password", "ERR AUTH") || strings.Contains(text, "Protocol error: unauthenticated"):
		kind = ErrAuth
	case hasCode("NOPERM") || strings.Contains(text, "user executing the script can't"):
		kind = ErrACL
	case hasCode("OOM"):
		kind = ErrFull
	case hasCode("ERR max number of clients"):
		kind = ErrDown
	case strings.Contains(text, "non local key"): // a hash slot is moving to another node
		kind = ErrBusy
	case hasCode("MISCONF"):
		kind = ErrDisk
	case hasCode("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS", "UNBLOCKED"):
		kind = ErrBusy
	case hasCode("WRONGTYPE") || isDamagedValue(text):
		kind = ErrCorrupt
	case strings.Contains(text, "Protocol error"):
		kind = session.ErrInvalid
	default:
		kind = ErrRefused
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// isDamagedValue reports whether a command or a script failed on a value's content. Such an error does not mean that
// Redis is unavailable.
func isDamagedValue(text string) bool {
	for _, pattern := range []string{"is not an integer", "is not a valid float", "attempt to "} { // the last one begins a Lua error
		if strings.Contains(text, pattern) {
			return true
		}
	}
	return false
}

// refusalRemedy returns the remedy for an error reply from a server that is not of the kind named in store.url; ""
// means none.
func (s *Store) refusalRemedy(text string) string {
	if _, isCluster := s.client.(*goredis.ClusterClient); !isCluster && strings.Contains(text, "MOVED ") {
		return "the server is a Cluster node: add cluster=true to store.url"
	}
	for _, r := range []struct{ pattern, remedy string }{
		{"cluster support disabled", "the server is not a Cluster node: remove cluster=true from store.url"},
		{"DB index is out of range", "Redis has no database with this number; write another number in store.url, such as /0"},
		{"unknown command 'sentinel'", "the server is not a Sentinel: write a Sentinel's port (26379) in store.url, or write redis:// without master"},
		{"unknown command", "precept needs this command (docs/OPERATIONS.md lists all): allow the command in Redis; if store.url names a Sentinel, name a Redis server instead"},
		{"READONLY ", "the server is a replica: unless a failover is about to promote it, name the primary or the Sentinel group in store.url"},
	} {
		if strings.Contains(text, r.pattern) {
			return r.remedy
		}
	}
	return ""
}
