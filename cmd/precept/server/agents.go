package server

import (
	"path/filepath"

	"precept/configs"
	"precept/proxy"
)

// consulted counts how often agents' lessons were consulted. Replicas count together in the store
// that they share, else in the Redis of the lessons.
func (p *parts) consulted(cfg *configs.Config, backend any) *proxy.Consulted {
	tally := shared[proxy.Tally](backend)
	if tally == nil && p.bank != nil {
		tally = p.bank
	}
	file := filepath.Join(cfg.DataDir, "consulted.json")
	if p.notice != "" {
		file = ""
	}
	consulted, err := proxy.NewConsulted(file, tally, p.Now)
	if err != nil {
		p.log.Warn("the counts of consulted lessons begin anew", "error", err)
	}
	p.owners = append(p.owners, consulted.Run)
	return consulted
}
