package server

import (
	"context"
	"io"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/store"
)

// Rate implements admin.Rater.
func (p *parts) Rate(ctx context.Context, tenant string, f feedback.Post) (store.Posted, error) {
	var failed error
	f = f.Received(p.Now(), func() string {
		id, err := p.freshKey()
		failed = err
		return "fb_" + id
	})
	if failed != nil {
		return store.Posted{}, failed
	}
	return p.store.Rate(ctx, tenant, f)
}

// Export implements admin.Exporter, with the store that the server has open.
func (p *parts) Export(ctx context.Context, w io.Writer, e admin.Export) error {
	open, ok := p.backend.(Evidence)
	if !ok {
		return store.ErrVolatile
	}
	filter := e.Filter
	x := &ExportJob{
		Evidence: open, Filter: &filter, Agent: e.Agent, Session: e.Session, Out: w,
		hides: p.archive.Hides,
	}
	return x.Write(ctx, e.Format)
}
