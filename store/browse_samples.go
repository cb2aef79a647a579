package store

import (
	"context"

	"precept/internal/sample"
	"precept/internal/session"
)

// SampleQuery says which samples are asked for, newest first.
type SampleQuery struct {
	sample.Filter        // Tenant is required
	Agent         string // the whole name
	Session       string // a session's id
	After         string
	Limit         int // 0: DefaultRows; at most MaxRows
}

// SampleItem is a sample in a list.
type SampleItem struct {
	Session string        `json:"session_id"`
	Tenant  string        `json:"tenant"`
	Agent   string        `json:"agent"`
	Sample  sample.Sample `json:"sample"`
}

// SampleList is the answer to a SampleQuery.
type SampleList struct {
	Samples []SampleItem `json:"samples"`
	Next    string       `json:"next,omitempty"` // asks for what comes behind; there may be more although this page is short
	Looked  int          `json:"looked_at"`      // how many samples were looked at for it
}

// BrowseSamples lists samples as Browse lists sessions.
func (a *Archive) BrowseSamples(ctx context.Context, q *SampleQuery) (SampleList, error) {
	out := SampleList{Samples: []SampleItem{}}
	limit := rows(q.Limit)
	of := session.Stretch{Since: q.From, Until: q.To, After: q.After, Most: limit}
	began := a.now()
	for {
		page, err := a.be.NewestSamples(ctx, q.Tenant, of)
		if err != nil {
			return out, err
		}
		for i := range page.List {
			out.Looked++
			m := &page.List[i]
			if a.Hides(m.Tenant, m.Agent) || q.Agent != "" && q.Agent != m.Agent || q.Session != "" && q.Session != m.ID.String() || !q.Match(m.Tenant, &m.Sample) {
				continue
			}
			out.Samples = append(out.Samples, SampleItem{Session: m.ID.String(), Tenant: m.Tenant, Agent: m.Agent, Sample: m.Sample})
		}
		out.Next, of.After = page.Next, page.Next
		of.Most = limit - len(out.Samples)
		if page.Next == "" || len(out.Samples) >= limit || out.Looked >= maxScan || a.now().Sub(began) > maxSearch {
			return out, nil
		}
	}
}
