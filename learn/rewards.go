package learn

import (
	"container/heap"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/internal/session"
)

// maxProvisional is the maximum number of open sessions with a provisional reward. The chooser learns from further
// sessions only when they close.
const maxProvisional = 50_000

// provisionalReward is the provisional reward of an open session. Only the chooser uses provisional rewards
// (bandit.Chooser.AddProvisional).
type provisionalReward struct {
	provisional bandit.Provisional
	due         time.Time // closing time of the session
	addedTo     *tenant   // tenant whose counters contain the reward; nil if none; may be evicted from memory
}

// provisionalSet holds the provisional rewards of all tenants, including tenants that were evicted from memory.
type provisionalSet struct {
	byTenant map[string]map[session.ID]provisionalReward
	count    int      // number of rewards
	closings dueTimes // closing times of the rewards, and of some rewards that were removed
}

// add adds the reward of a session.
func (o *provisionalSet) add(ref session.Ref, r provisionalReward) {
	if o.byTenant[ref.Tenant] == nil {
		o.byTenant[ref.Tenant] = map[session.ID]provisionalReward{}
	}
	o.byTenant[ref.Tenant][ref.ID] = r
	o.count++
	heap.Push(&o.closings, dueTime{r.due, ref})
}

// remove removes and returns the reward of a session. ok is false if the session has no reward.
func (o *provisionalSet) remove(ref session.Ref) (r provisionalReward, ok bool) {
	rewards := o.byTenant[ref.Tenant]
	if r, ok = rewards[ref.ID]; !ok {
		return r, false
	}
	delete(rewards, ref.ID)
	if len(rewards) == 0 {
		delete(o.byTenant, ref.Tenant)
	}
	o.count--
	if len(o.closings) > 2*o.count+maxProvisional/100 { // most entries belong to removed rewards
		o.reschedule()
	}
	return r, true
}

// reschedule rebuilds the heap of closing times from the rewards.
func (o *provisionalSet) reschedule() {
	o.closings = o.closings[:0]
	for name, rewards := range o.byTenant {
		for id, r := range rewards {
			o.closings = append(o.closings, dueTime{r.due, session.Ref{Tenant: name, ID: id}})
		}
	}
	heap.Init(&o.closings)
}

// dueTime is the closing time of a session.
type dueTime struct {
	at  time.Time
	ref session.Ref
}

// dueTimes is a heap whose first element has the earliest closing time. dueTimes implements heap.Interface.
type dueTimes []dueTime

func (d *dueTimes) Len() int           { return len(*d) }
func (d *dueTimes) Less(i, j int) bool { return (*d)[i].at.Before((*d)[j].at) }
func (d *dueTimes) Swap(i, j int)      { (*d)[i], (*d)[j] = (*d)[j], (*d)[i] }
func (d *dueTimes) Push(x any)         { *d = append(*d, x.(dueTime)) } //nolint:forcetypeassert // only add pushes
func (d *dueTimes) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// reassign changes addedTo from the old copy of a tenant to the fresh copy, whose counters have inherited the rewards.
func (o *provisionalSet) reassign(name string, old, fresh *tenant) {
	for id, r := range o.byTenant[name] {
		if r.addedTo == old {
			r.addedTo = fresh
			o.byTenant[name][id] = r
		}
	}
}

// detach removes the references from the open rewards of a tenant to its beliefs. Otherwise the memory of the beliefs
// of an evicted tenant would not be freed.
func (o *provisionalSet) detach(name string) {
	for id, r := range o.byTenant[name] {
		r.addedTo = nil
		o.byTenant[name][id] = r
	}
}

// addToCounters adds the open rewards of a tenant to the counters of t, except rewards that these counters already
// include.
func (o *provisionalSet) addToCounters(name string, t *tenant) {
	for id, r := range o.byTenant[name] {
		if r.addedTo == t {
			continue
		}
		t.counters.RestoreProvisional(r.provisional)
		if r.provisional.Rewarded() {
			t.newRewards++
		}
		r.addedTo = t
		o.byTenant[name][id] = r
	}
}

// countRewarded returns how many open sessions of a tenant have a reward.
func (o *provisionalSet) countRewarded(name string) (n int) {
	for _, r := range o.byTenant[name] {
		if r.provisional.Rewarded() {
			n++
		}
	}
	return n
}

// setProvisional replaces the provisional reward of a session.
func (b *beliefs) setProvisional(rec *session.Record, out feedback.SessionReward, due time.Time) {
	ref := session.Ref{Tenant: rec.Identity.Tenant, ID: rec.Identity.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropProvisional(ref)
	if !out.OK || b.provisional.count >= maxProvisional {
		return
	}
	t := b.getOrAdd(ref.Tenant)
	r := provisionalReward{t.counters.AddProvisional(&rec.Assignment, out.Reward, out.Tier), due, t}
	if r.provisional.Rewarded() {
		t.newRewards++
	}
	b.provisional.add(ref, r)
}

// dropProvisional removes the provisional reward of a session. The caller holds b.mu.
func (b *beliefs) dropProvisional(ref session.Ref) {
	r, ok := b.provisional.remove(ref)
	if !ok || r.addedTo == nil || r.addedTo != b.tenant(ref.Tenant) {
		return
	}
	r.addedTo.counters.DropProvisional(r.provisional)
	if r.provisional.Rewarded() {
		r.addedTo.newRewards--
	}
}

// dueSessions returns the sessions of a tenant that have a provisional reward and close at deadline or earlier. The
// caller holds b.mu.
func (b *beliefs) dueSessions(name string, deadline time.Time) (ids []session.ID) {
	for id, r := range b.provisional.byTenant[name] {
		if !r.due.After(deadline) {
			ids = append(ids, id)
		}
	}
	return ids
}

// expire removes the provisional rewards of sessions with a closing time before limit.
func (b *beliefs) expire(limit time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.provisional.closings) > 0 && b.provisional.closings[0].at.Before(limit) {
		next := heap.Pop(&b.provisional.closings).(dueTime) //nolint:forcetypeassert // only add pushes
		if r, ok := b.provisional.byTenant[next.ref.Tenant][next.ref.ID]; ok && r.due.Equal(next.at) {
			b.dropProvisional(next.ref)
		}
	}
}
