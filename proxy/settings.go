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

// settings is one configuration, made ready. It is swapped whole on reload; a request keeps the one
// it started with.
type settings struct {
	optOut     *sample.OptOut
	cfg        *configs.Config
	transports map[transportKey]*http.Transport
	targets    map[string]*target
	routes     map[string]*target // by dialect name and "other"
	injector   *inject.Injector
	keys       map[string]*configs.Key
	secret     []byte
	excluded   bool   // new sessions are no part of the experiment: their coins would fall otherwise on another replica
	nameless   bool   // whose a request is cannot be told: it is passed on, and nothing of it is looked at
	hash       string // of the configuration, for exchanges
}

// newSettings makes a configuration ready, with the transports of the one before where it can.
func newSettings(c *configs.Config, fleet FleetKeys, old *settings) (*settings, error) {
	s := &settings{
		cfg: c, transports: map[transportKey]*http.Transport{}, targets: map[string]*target{}, routes: map[string]*target{}, keys: map[string]*configs.Key{},
		secret: fleet.Secret, nameless: fleet.Unsure && c.Tenancy == "by-credential", hash: c.Hash(),
	}
	if err := s.upstreams(old); err != nil {
		return nil, err
	}
	for what, name := range c.Route() {
		s.routes[what] = s.targets[name]
	}
	for i := range c.Keys {
		s.keys[c.Keys[i].KeySHA256] = &c.Keys[i]
	}
	salt := c.Bandit.Salt.Reveal()
	if salt == "" {
		salt, s.excluded = fleet.Salt, fleet.Unsure
	}
	s.injector = inject.New(Injection(c, salt))
	var err error
	s.optOut, err = sample.NewOptOut(nil, c.Learning.OptOutAgents, c.Learning.OptOutTenants)
	return s, err
}

// transportKey says which upstreams share their connections: those on one host, under one limit.
type transportKey struct {
	scheme, host string
	header       time.Duration // limits.upstream_header_timeout, which a transport holds for all of its requests
}

// upstreams makes the targets.
func (s *settings) upstreams(old *settings) error {
	for name, u := range s.cfg.AllUpstreams() {
		t, err := newTarget(name, u)
		if err != nil {
			return err
		}
		s.targets[name] = t
		key := transportKey{t.base.Scheme, t.base.Host, s.cfg.Limits.UpstreamHeaderTimeout}
		if s.transports[key] == nil && old != nil {
			s.transports[key] = old.transports[key]
		}
		if s.transports[key] == nil {
			s.transports[key] = newTransport(key.header)
		}
		t.transport = s.transports[key]
	}
	return nil
}

// target picks the upstream: the path form's, among the configured names, else that of the family.
func (s *settings) target(d wire.Dialect, named string) *target {
	if named != "" {
		return s.targets[named]
	}
	if d == wire.None {
		return s.routes["other"]
	}
	return s.routes[d.String()]
}

// leave is done when a request is over, and when another configuration has come into force: a
// transport that this one does not need keeps no idle connection. What is still on one is followed
// by this; a connection that is just being given back goes when it has been idle for its time.
func (s *settings) leave(t *http.Transport) {
	for _, needed := range s.transports {
		if t == needed {
			return
		}
	}
	t.CloseIdleConnections()
}

// Injection is what a configuration says of choosing and presenting lessons.
func Injection(c *configs.Config, salt string) inject.Config {
	return inject.Config{
		Writ:  c.Writ.Enabled && c.Writ.Advertise,
		Style: inject.Style(c.Inject.Style), Placement: inject.Placement(c.Inject.Placement), BudgetBytes: int(c.Inject.BudgetBytes), NoLoops: !c.Detect.Loops,
		Tags: lesson.NewTagger(c.Tags), System: c.Match.SystemAgents(),
		Bandit: bandit.Config{
			K: c.Inject.K, Epsilon: c.Bandit.Epsilon, Holdout: bandit.Holdout(c.Bandit.Holdout), Control: c.Bandit.Control,
			Objective: bandit.Objective(c.Bandit.Objective), Salt: salt, TokenCost: c.Bandit.TokenCost,
		},
	}
}
