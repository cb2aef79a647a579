package server

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"precept/admin"
	"precept/bandit/report"
	"precept/configs"
)

// openAdmin creates the admin server. If no token is configured, openAdmin uses the token in the data directory. If
// there is none, openAdmin creates a token, and shows the login link once.
func (s *Server) openAdmin(registry *prometheus.Registry, dataListener, adminListener net.Listener) error {
	if len(s.cfg.Admin.Tokens) == 0 {
		token, created, err := admin.EnsureToken(s.cfg.DataDir, s.options.Tools.Random)
		if token == "" {
			return err
		}
		if err != nil {
			s.log.Warn("the admin token cannot be stored; the next start creates another token", "error", err)
		}
		s.token = token
		if created && s.options.OnReady == nil {
			note := "the token is kept in " + filepath.Join(s.cfg.DataDir, admin.TokenFile)
			if err != nil {
				note = "the token is valid until precept stops"
			}
			fmt.Fprintf(s.options.Console, "dashboard: %s (shown once; %s)\n", admin.LoginLink(s.dashboardURL(localURL(adminListener.Addr())), token), note)
			s.showsLinks = true
		}
	}
	s.effective.Store(s.cfg)
	dataDir := s.cfg.DataDir
	if s.options.Embedded { // the admin server then keeps the audit log in memory
		dataDir = ""
	}
	v := s.services
	health := &health{services: v, server: s, started: s.options.Tools.Now().UTC(), outbox: outboxPathFor(s.cfg, v.backend)}
	var err error
	s.admin, err = admin.New(admin.Options{
		Access:  s.access(s.cfg),
		Address: admin.Address{BasePath: s.cfg.Admin.BasePath, Listen: adminListener.Addr().String(), DataURL: localURL(dataListener.Addr())},
		Read:    admin.Readers{Report: v, Library: v, Survey: v, Archive: v.archive, Export: v, Rules: v},
		Write:   admin.Writers{Forget: v, Import: v, Lessons: v, Rate: v, Notes: v.backend},
		Program: admin.Program{
			Figures: s.figures, Health: health.read, Prices: s.prices, Tenants: v.backend.Tenants, Ready: s.proxy.Ready,
			Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), // exemplars need the OpenMetrics format
		},
		TrueEffect: s.options.TrueEffect, DataDir: dataDir,
		Random: s.options.Tools.Random, Now: s.options.Tools.Now, Log: s.log,
	})
	if err != nil {
		return err
	}
	for _, run := range s.admin.Workers() {
		s.addWorker("admin", run)
	}
	return nil
}

func (s *Server) dashboardURL(adminURL string) string { return adminURL + s.cfg.Admin.BasePath }

// clearAdminCaches clears the admin server's caches. The admin server does not exist yet during setup.
func (s *Server) clearAdminCaches() {
	if s.admin != nil {
		s.admin.ClearCaches()
	}
}

func (s *Server) prices() admin.Prices {
	c := s.effective.Load()
	return admin.Prices{Models: c.PriceTable(), SuccessValue: c.Admin.SessionValue, Currency: c.Currency()}
}

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

// figures returns the dashboard's status lines: a failed reload, a pending restart, the lessons, the distiller and the
// store.
func (s *Server) figures(context.Context) (out []admin.Figure) {
	if fault := s.reload.lastError.get(); fault != "" {
		out = append(out, admin.Figure{Name: "Configuration", Value: "the last change was rejected, and the previous configuration stays in effect: " + fault, Bad: true})
	}
	if waiting := s.reload.pendingKeys.get(); waiting != "" {
		out = append(out, admin.Figure{Name: "Configuration", Value: "changed keys that need a restart: " + waiting, Bad: true})
	}
	v := s.services
	t := &v.store.Metrics
	out = append(append(out, v.lessonFigures()...), []admin.Figure{
		{Name: "Sessions and runs in memory", Value: strconv.Itoa(v.store.Sessions())},
		{Name: "Exchanges stored since start", Value: strconv.FormatInt(t.Exchanges.Load(), 10)},
		{Name: "Exchanges waiting for the store", Value: strconv.FormatInt(t.Pending.Load(), 10)},
		{Name: "Sessions closed since start", Value: strconv.FormatInt(v.learner.Metrics.Closed.Load(), 10)},
	}...)
	if n := s.proxy.UnsupportedRequests(); n > 0 {
		out = append(out, admin.Figure{
			Name: "Unsupported API", Value: report.Grouped(n) + " POST requests were forwarded, but got no lessons and were not stored", Help: "AGENTS#known-limits",
		})
	}
	if v.distiller != nil {
		if fault := v.distiller.lastError.get(); fault != "" {
			out = append(out, admin.Figure{Name: "Distiller", Value: "the last run failed: " + fault, Bad: true})
		}
	}
	if v.memoryReason != "" {
		out = append(out, admin.Figure{Name: "Store", Value: "nothing is stored: " + v.memoryReason, Bad: true})
	} else if trouble := v.store.Problem(); trouble != "" {
		out = append(out, admin.Figure{Name: "Store", Value: trouble, Bad: true})
	}
	return out
}

const maxShownFaulty = 10

func (s *services) lessonFigures() []admin.Figure {
	problems := s.lessons.problems.Load()
	out := []admin.Figure{
		{Name: "Active lessons", Value: strconv.Itoa(countActive(s.lessons.book.Load(), s.tools.Now()))},
		{Name: "Lesson files with faults", Value: strconv.FormatInt(problems, 10), Bad: problems > 0},
	}
	if why := s.lessons.readError.get(); why != "" {
		out = append(out, admin.Figure{Name: "Lessons in " + s.lessons.location, Value: "cannot be read; the lessons in memory stay in effect: " + why + "; " + s.lessons.remedy(), Bad: true})
	}
	if faulty := s.lessons.faultyFiles.Load(); faulty != nil {
		for _, p := range (*faulty)[:min(len(*faulty), maxShownFaulty)] {
			name, err := filepath.Rel(s.lessons.source, p.Path)
			if err != nil {
				name = p.Path
			}
			out = append(out, admin.Figure{Name: name, Value: p.Errors.Error()})
		}
	}
	return out
}
