package app

import (
	"path/filepath"

	"precept/configs"
	"precept/proxy"
	"precept/store/redis"
)

// agentLessons is what /v1/lessons and /lesson need: the bank, open for as long as precept runs,
// and the counts of consultations.
func (p *parts) agentLessons(cfg *configs.Config, backend any) (
	proxy.Bank, *proxy.Consulted, error,
) {
	b, closeBank, err := p.OpenWriter(cfg)
	if err != nil {
		return nil, nil, err
	}
	p.closeAgents = closeBank
	file := filepath.Join(cfg.DataDir, "consulted.json")
	if p.notice != "" {
		file = ""
	}
	consulted, err := proxy.NewConsulted(file, p.tally(backend), p.Now)
	if err != nil {
		p.log.Warn("the counts of consulted lessons begin anew", "error", err)
	}
	p.follow = append(p.follow, consulted.Run)
	return b, consulted, nil
}

// tally is where replicas count consultations together: the store that they share, else the Redis
// of the lessons; nil where neither is there.
func (p *parts) tally(backend any) proxy.Tally {
	switch db, ok := backend.(*redis.Store); {
	case ok:
		return db
	case p.bank != nil:
		return p.bank
	}
	return nil
}

// lettersOf is where answers wait for the next turn at another replica; nil where there is none.
func lettersOf(backend any) proxy.Letters {
	if db, ok := backend.(*redis.Store); ok {
		return db
	}
	return nil
}
