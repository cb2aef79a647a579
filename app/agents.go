package app

import (
	"path/filepath"

	"precept/configs"
	"precept/proxy"
)

// agentLessons is what /v1/lessons and /lesson need: the bank, open for as long as precept runs,
// and the counts of consultations.
func (p *parts) agentLessons(cfg *configs.Config) (proxy.Bank, *proxy.Consulted, error) {
	b, closeBank, err := p.OpenWriter(cfg)
	if err != nil {
		return nil, nil, err
	}
	p.closeAgents = closeBank
	file := filepath.Join(cfg.DataDir, "consulted.json")
	if p.notice != "" {
		file = ""
	}
	consulted, err := proxy.NewConsulted(file, p.Now)
	if err != nil {
		p.log.Warn("the counts of consulted lessons begin anew", "error", err)
	}
	p.follow = append(p.follow, consulted.Run)
	return b, consulted, nil
}
