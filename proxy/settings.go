package proxy

import (
	"net/http"
	"time"

	"precept/bandit"
	"precept/configs"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/wire"
)

// settings holds one configuration. A request uses the settings in effect when the request began.
type settings struct {
	optOut         *sample.OptOut
	cfg            *configs.Config
	transports     map[transportKey]*http.Transport
	targets        map[string]*target
	routes         map[string]*target // targets by dialect name, or by "other"
	bases          []string           // escaped paths in the upstreams' URLs
	injector       *inject.Injector
	keys           map[string]*configs.Key // configured keys by SHA-256
	secret         []byte                  // see FleetKeys.Secret
	excluded       bool                    // the replicas' salt is unknown, so new sessions are excluded from the experiment
	tenantsUnknown bool                    // tenants cannot be computed yet, so requests are forwarded unchanged
	hash           string                  // configuration hash, recorded with exchanges
}

// newSettings returns the settings for a configuration. An upstream that is also in old keeps the transport.
func newSettings(c *configs.Config, fleet FleetKeys, old *settings) (*settings, error) {
	s := &settings{
		cfg: c, transports: map[transportKey]*http.Transport{}, targets: map[string]*target{}, routes: map[string]*target{}, keys: map[string]*configs.Key{},
		secret: fleet.Secret, tenantsUnknown: fleet.Unconfirmed && c.Tenancy == "by-credential", hash: c.Hash(),
	}
	if err := s.setUpstreams(old); err != nil {
		return nil, err
	}
	for dialect, name := range c.UpstreamByRoute() {
		s.routes[dialect] = s.targets[name]
	}
	for i := range c.Keys {
		s.keys[c.Keys[i].KeySHA256] = &c.Keys[i]
	}
	salt := c.Bandit.Salt.Reveal()
	if salt == "" {
		salt, s.excluded = fleet.Salt, fleet.Unconfirmed
	}
	s.injector = inject.New(NewInjectConfig(c, salt))
	var err error
	s.optOut, err = sample.NewOptOut(nil, c.Learning.OptOutAgents, c.Learning.OptOutTenants)
	return s, err
}

// transportKey identifies a transport. Upstreams with the same host and limit share the connections.
type transportKey struct {
	scheme, host  string
	headerTimeout time.Duration // limits.upstream_header_timeout
}

func (s *settings) setUpstreams(old *settings) error {
	for name, u := range s.cfg.AllUpstreams() {
		t, err := newTarget(name, u)
		if err != nil {
			return err
		}
		s.targets[name] = t
		s.bases = append(s.bases, t.path)
		key := transportKey{t.base.Scheme, t.base.Host, s.cfg.Limits.UpstreamHeaderTimeout}
		if s.transports[key] == nil && old != nil {
			s.transports[key] = old.transports[key]
		}
		if s.transports[key] == nil {
			s.transports[key] = newTransport(key.headerTimeout)
		}
		t.transport = s.transports[key]
	}
	return nil
}

// target returns the named upstream, or nil if it is not configured. Without a name, target returns the API's upstream.
func (s *settings) target(d wire.Dialect, named string) *target {
	if named != "" {
		return s.targets[named]
	}
	if d == wire.NoDialect {
		return s.routes["other"]
	}
	return s.routes[d.String()]
}

// closeIdle closes a transport's idle connections, unless these settings use the transport.
func (s *settings) closeIdle(t *http.Transport) {
	for _, used := range s.transports {
		if t == used {
			return
		}
	}
	t.CloseIdleConnections()
}

// NewInjectConfig returns the part of a configuration that chooses and presents lessons.
func NewInjectConfig(c *configs.Config, salt string) inject.Config {
	return inject.Config{
		AdvertiseCommands: c.Writ.Enabled && c.Writ.Advertise,
		Style:             inject.Style(c.Inject.Style), Placement: inject.Placement(c.Inject.Placement), BudgetBytes: int(c.Inject.BudgetBytes), NoLoopDetection: !c.Detect.Loops, NoCautions: !c.Inject.Cautions,
		Tags: lesson.NewTagger(c.Tags), SystemPromptAgents: c.Match.SystemAgents(), InjectByLikeness: c.Match.Like == configs.LikeOn,
		Bandit: bandit.Config{
			K: c.Inject.K, Epsilon: c.Bandit.Epsilon, Holdout: bandit.Holdout(c.Bandit.Holdout), Retest: c.Bandit.Retest, Control: c.Bandit.Control,
			Objective: bandit.Objective(c.Bandit.Objective), Salt: salt, TokenCost: c.Bandit.TokenCost,
		},
	}
}
