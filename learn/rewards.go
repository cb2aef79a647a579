package learn

import (
	"container/heap"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/internal/session"
)

// maxProvisional bounds the provisional rewards. The chooser learns from further sessions only when they close.
const maxProvisional = 50_000

// provisionalReward is an open session's reward (bandit.Chooser.AddProvisional).
type provisionalReward struct {
	provisional bandit.Provisional
	due         time.Time // when the session closes
	countedIn   *tenant   // the tenant copy that counts the reward, possibly evicted; nil if none
}

// provisionalSet holds the rewards for all tenants, including evicted tenants.
type provisionalSet struct {
	byTenant     map[string]map[session.ID]provisionalReward
	count        int
	closingTimes dueTimes // also has entries for removed rewards
}

func (o *provisionalSet) add(ref session.Ref, r provisionalReward) {
	if o.byTenant[ref.Tenant] == nil {
		o.byTenant[ref.Tenant] = map[session.ID]provisionalReward{}
	}
	o.byTenant[ref.Tenant][ref.ID] = r
	o.count++
	heap.Push(&o.closingTimes, dueTime{r.due, ref})
}

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
	if len(o.closingTimes) > 2*o.count+maxProvisional/100 { // most entries are for removed rewards
		o.reschedule()
	}
	return r, true
}

// reschedule rebuilds closingTimes without the removed rewards.
func (o *provisionalSet) reschedule() {
	o.closingTimes = o.closingTimes[:0]
	for name, rewards := range o.byTenant {
		for id, r := range rewards {
			o.closingTimes = append(o.closingTimes, dueTime{r.due, session.Ref{Tenant: name, ID: id}})
		}
	}
	heap.Init(&o.closingTimes)
}

type dueTime struct {
	at  time.Time
	ref session.Ref
}

// dueTimes is a heap.Interface with the earliest closing time first.
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

// reassign records that the fresh tenant counts the rewards that the old copy counted. bandit.Chooser.Inherit has
// copied them.
func (o *provisionalSet) reassign(name string, old, fresh *tenant) {
	for id, r := range o.byTenant[name] {
		if r.countedIn == old {
			r.countedIn = fresh
			o.byTenant[name][id] = r
		}
	}
}

// detach drops references to an evicted tenant's beliefs, to free the memory.
func (o *provisionalSet) detach(name string) {
	for id, r := range o.byTenant[name] {
		r.countedIn = nil
		o.byTenant[name][id] = r
	}
}

// addToCounters adds to t's counters the tenant's provisional rewards that t does not count yet.
func (o *provisionalSet) addToCounters(name string, t *tenant) {
	for id, r := range o.byTenant[name] {
		if r.countedIn == t {
			continue
		}
		t.counters.RestoreProvisional(r.provisional)
		if r.provisional.Rewarded() {
			t.newRewards++
		}
		r.countedIn = t
		o.byTenant[name][id] = r
	}
}

func (o *provisionalSet) countRewarded(name string) (n int) {
	for _, r := range o.byTenant[name] {
		if r.provisional.Rewarded() {
			n++
		}
	}
	return n
}

// setProvisional replaces an open session's reward. Without a reward in out, it only removes the earlier one.
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

// dropProvisional removes a session's reward. The caller holds b.mu.
func (b *beliefs) dropProvisional(ref session.Ref) {
	r, ok := b.provisional.remove(ref)
	if !ok || r.countedIn == nil || r.countedIn != b.tenant(ref.Tenant) {
		return
	}
	r.countedIn.counters.DropProvisional(r.provisional)
	if r.provisional.Rewarded() {
		r.countedIn.newRewards--
	}
}

// dueSessions returns those of a tenant's sessions that have a provisional reward and close by deadline. The caller
// holds b.mu.
func (b *beliefs) dueSessions(name string, deadline time.Time) (ids []session.ID) {
	for id, r := range b.provisional.byTenant[name] {
		if !r.due.After(deadline) {
			ids = append(ids, id)
		}
	}
	return ids
}

// expire removes the rewards for sessions that should have closed before limit.
func (b *beliefs) expire(limit time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.provisional.closingTimes) > 0 && b.provisional.closingTimes[0].at.Before(limit) {
		next := heap.Pop(&b.provisional.closingTimes).(dueTime) //nolint:forcetypeassert // only add pushes
		if r, ok := b.provisional.byTenant[next.ref.Tenant][next.ref.ID]; ok && r.due.Equal(next.at) {
			b.dropProvisional(next.ref)
		}
	}
}
