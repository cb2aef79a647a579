package server

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"precept/admin"
	"precept/configs"
)

// openAdmin makes the admin face, with a token of its own when the configuration names none.
func (s *Server) openAdmin(data, l net.Listener) error {
	base := localURL(l.Addr())
	if len(s.cfg.Admin.Tokens) == 0 {
		token, fresh, err := admin.EnsureToken(s.cfg.DataDir, s.Random)
		if token == "" {
			return err
		}
		if err != nil {
			s.log.Warn("admin token", "error", err)
		}
		s.token = token
		if fresh && s.options.Ready == nil {
			kept := "the token is kept in " + filepath.Join(s.cfg.DataDir, admin.TokenFile)
			if err != nil {
				kept = "it holds until precept stops"
			}
			fmt.Fprintf(
				s.options.Console, "dashboard: %s (shown once; %s)\n", admin.LoginLink(base, token),
				kept,
			)
			s.first = true
		}
	}
	s.shown.Store(s.cfg)
	p, vitals := s.parts, &vitals{parts: s.parts, server: s, started: s.Now().UTC()}
	notes := s.cfg.DataDir
	if s.options.Within {
		notes = ""
	}
	var err error
	s.admin, err = admin.New(admin.Options{
		Access: s.access(s.cfg), Base: s.cfg.Admin.BasePath, Listen: l.Addr().String(), Data: localURL(data.Addr()),
		Report: p, Forget: p, Keep: p, Library: p, Survey: p, Archive: p.archive, Rate: p, Export: p,
		Figures: s.adminFigures, Ready: p.proxy.Ready, Truth: s.options.Truth,
		Metrics: promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), // which alone holds exemplars
		Health:  vitals.health, Prices: s.prices, DataDir: notes,
		Random: s.Random, Now: s.Now, Log: s.log.Logger,
	})
	return err
}

// prices are those of the configuration in force.
func (s *Server) prices() admin.Prices {
	c := s.shown.Load().Admin
	return admin.Prices{Input: c.PriceInput, Cached: c.PriceCached}
}

// access is who may come in under a configuration.
func (s *Server) access(cfg *configs.Config) admin.Access {
	a := admin.Access{Hosts: cfg.Admin.Hosts, PublicMetrics: cfg.Metrics.Public}
	for _, t := range cfg.Admin.Tokens {
		a.Tokens = append(a.Tokens, t.Reveal())
	}
	for _, t := range cfg.Admin.ViewerTokens {
		a.Viewers = append(a.Viewers, t.Reveal())
	}
	if len(a.Tokens) == 0 && s.token != "" {
		a.Tokens = []string{s.token}
	}
	return a
}

// adminFigures is the health of the parts and, when there is one, the fault of the last reload.
func (s *Server) adminFigures(context.Context) []admin.Figure {
	var out []admin.Figure
	if fault := s.faults.get(); fault != "" {
		out = append(out, admin.Figure{
			Name: "Configuration", Value: "the old one is in force: " + fault, Bad: true,
		})
	}
	if waiting := s.waiting.get(); waiting != "" {
		out = append(out, admin.Figure{
			Name: "Configuration", Value: "needs a new start: " + waiting, Bad: true,
		})
	}
	return append(out, s.parts.figures()...)
}
