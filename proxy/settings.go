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

// settings holds one configuration. A reload replaces all settings at once, and a request uses the settings at its
// start.
type settings struct {
	optOut         *sample.OptOut
	cfg            *configs.Config
	transports     map[transportKey]*http.Transport
	targets        map[string]*target
	routes         map[string]*target // targets by the name of the dialect, or by "other"
	bases          []string           // escaped paths
	injector       *inject.Injector
	keys           map[string]*configs.Key // configured keys by the SHA-256 of the key
	secret         []byte                  // see FleetKeys.Secret
	excluded       bool                    // the salt of the replicas is unknown, so new sessions are excluded
	tenantsUnknown bool                    // tenants cannot be computed yet, so requests are forwarded unchanged
	hash           string                  // hash of the configuration, recorded with exchanges
}

// newSettings returns the settings of a configuration. An upstream that is also in old keeps its transport.
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

// transportKey identifies a transport. Upstreams with the same host and limit share its connections.
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

// target returns the upstream that the path form names, or nil if it is not configured. If the path names none, target
// returns the upstream of the API.
func (s *settings) target(d wire.Dialect, named string) *target {
	if named != "" {
		return s.targets[named]
	}
	if d == wire.NoDialect {
		return s.routes["other"]
	}
	return s.routes[d.String()]
}

// closeIdle closes the idle connections of a transport that these settings do not use. Call it when other settings take
// effect, and at the end of each request. IdleConnTimeout closes the rest.
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
