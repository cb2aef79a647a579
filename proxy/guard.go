package proxy

// guard runs one step of learning. A panic in it is counted and logged, and the request goes on
// without the step: no fault of ours may change what the agent sees.
func (p *Proxy) guard(step string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			p.opts.Metrics.FailedOpen(step)
			p.opts.Log.Error("a step panicked; the request goes on without it", "step", step, "panic", v)
		}
	}()
	f()
	return true
}
