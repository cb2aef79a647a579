package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// What can go wrong, for errors.Is, beside session.ErrInvalid, which never succeeds, and
// session.ErrParkingFull. What wraps session.ErrUnavailable is temporary.
var (
	// ErrDown means that Redis cannot be reached, or does not answer in time.
	ErrDown = fmt.Errorf("Redis cannot be reached: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrBusy means that Redis answers, but takes no writes now: it loads its data, fails over, or
	// is a replica.
	ErrBusy = fmt.Errorf("Redis does not take writes now: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrFull means that maxmemory is reached.
	ErrFull = fmt.Errorf("Redis is full (maxmemory); give it more memory, or keep less with learning.retention: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrAuth means that user or password are refused.
	ErrAuth = fmt.Errorf("Redis refuses the user or the password; check store.url: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrTLS means that a certificate is not trusted, ours or the server's.
	ErrTLS = fmt.Errorf("Redis and precept do not trust each other; name the authority of its certificate with ca_file in store.url, and ours with cert_file and key_file: %w", session.ErrUnavailable) //nolint:staticcheck // a name
	// ErrACL means that the user may not do what precept needs.
	ErrACL = fmt.Errorf("the Redis user lacks a permission; docs/OPERATIONS.md lists what precept needs: %w", session.ErrUnavailable)
	// ErrCorrupt means that something in Redis is not what we wrote.
	ErrCorrupt = errors.New("a value in Redis is not precept's")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrURL means that the address of Redis, or something in it, cannot be used.
	ErrURL = errors.New("the Redis address cannot be used")
)

// explain puts the sentinel that a caller acts upon before the server's or the network's own words.
// Neither of them holds the password.
func explain(ctx context.Context, err error) error {
	if err == nil || absent(err) {
		return err
	}
	var reply goredis.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, goredis.ErrClosed):
		return ErrClosed
	case errors.Is(err, goredis.Nil): // no Sentinel knows the group
		return fmt.Errorf("%w: %w", ErrDown, err)
	case errors.As(err, &reply):
		return explainReply(err, reply.Error())
	case ours(err):
		return err
	case distrusts(err):
		return fmt.Errorf("%w: %w", ErrTLS, err)
	default:
		return fmt.Errorf("%w: %w", ErrDown, err)
	}
}

// absent says whether an error is the server's word that there is no such thing. The library
// returns that bare; wrapped, it is a Sentinel's word that there is no such master, and nothing was
// asked of any.
func absent(err error) bool { return err == goredis.Nil } //nolint:errorlint // see above

// ours says whether an error holds a sentinel of precept's already.
func ours(err error) bool {
	for _, kind := range [...]error{session.ErrUnavailable, session.ErrInvalid, session.ErrParkingFull, ErrCorrupt, ErrClosed} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// explainReply sorts what the server said. An error inside a script has the script's name in front
// or behind it.
func explainReply(err error, text string) error {
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.HasPrefix(text, w) || strings.Contains(text, ": "+w) || strings.Contains(text, "-"+w) {
				return true
			}
		}
		return false
	}
	kind := error(nil)
	switch {
	case has("WRONGPASS", "NOAUTH", "ERR invalid password", "ERR AUTH"):
		kind = ErrAuth
	case has("NOPERM") || strings.Contains(text, "user executing the script can't"):
		kind = ErrACL
	case has("OOM"):
		kind = ErrFull
	case has("ERR max number of clients"):
		kind = ErrDown
	case strings.Contains(text, "non local key"): // a slot is on its way to another node
		kind = ErrBusy
	case has("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "NOREPLICAS", "MISCONF", "UNBLOCKED"):
		kind = ErrBusy
	case has("WRONGTYPE"):
		kind = ErrCorrupt
	case strings.Contains(text, "Protocol error"):
		kind = session.ErrInvalid
	default:
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
