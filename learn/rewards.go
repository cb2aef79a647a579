package learn

import (
	"container/heap"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/internal/session"
)

// mostProvisional bounds the open sessions that the chooser learns from. Further sessions are
// learned from at their closing.
const mostProvisional = 50_000

// openReward is the provisional reward of an open session. Only the chooser uses provisional
// rewards (bandit.Chooser.AddProvisional).
type openReward struct {
	provisional bandit.Provisional
	due         time.Time // when the session closes
	in          *tenant   // the beliefs that contain the reward; nil, or a tenant that left memory: none
}

// openRewards hold the provisional rewards by tenant, also of tenants that left memory.
type openRewards struct {
	of   map[string]map[session.ID]openReward
	n    int      // number of rewards
	dues dueTimes // of the rewards, and of rewards that were replaced
}

// put adds the reward of a session.
func (o *openRewards) put(at session.Ref, r openReward) {
	if o.of[at.Tenant] == nil {
		o.of[at.Tenant] = map[session.ID]openReward{}
	}
	o.of[at.Tenant][at.ID] = r
	o.n++
	heap.Push(&o.dues, dueTime{r.due, at})
}

// take removes the reward of a session. ok is false for a session without a reward.
func (o *openRewards) take(at session.Ref) (r openReward, ok bool) {
	own := o.of[at.Tenant]
	if r, ok = own[at.ID]; !ok {
		return r, false
	}
	delete(own, at.ID)
	if len(own) == 0 {
		delete(o.of, at.Tenant)
	}
	o.n--
	if len(o.dues) > 2*o.n+mostProvisional/100 { // most entries are of rewards that were taken
		o.reschedule()
	}
	return r, true
}

// reschedule makes the list of closing times again.
func (o *openRewards) reschedule() {
	o.dues = o.dues[:0]
	for name, own := range o.of {
		for id, r := range own {
			o.dues = append(o.dues, dueTime{r.due, session.Ref{Tenant: name, ID: id}})
		}
	}
	heap.Init(&o.dues)
}

// dueTime is the closing time of a session.
type dueTime struct {
	at time.Time
	of session.Ref
}

// dueTimes is a heap: the earliest closing time is the first.
type dueTimes []dueTime

func (d *dueTimes) Len() int           { return len(*d) }
func (d *dueTimes) Less(i, j int) bool { return (*d)[i].at.Before((*d)[j].at) }
func (d *dueTimes) Swap(i, j int)      { (*d)[i], (*d)[j] = (*d)[j], (*d)[i] }
func (d *dueTimes) Push(x any)         { *d = append(*d, x.(dueTime)) } //nolint:forcetypeassert // only put pushes
func (d *dueTimes) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// inherited notes that a fresh copy of a tenant contains the rewards that the old copy contains.
func (o *openRewards) inherited(name string, old, fresh *tenant) {
	for id, r := range o.of[name] {
		if r.in == old {
			r.in = fresh
			o.of[name][id] = r
		}
	}
}

// release removes the references from the open rewards of a tenant to its beliefs, so that the beliefs of a
// tenant that left memory are collected.
func (o *openRewards) release(name string) {
	for id, r := range o.of[name] {
		r.in = nil
		o.of[name][id] = r
	}
}

// addTo adds the missing rewards of a tenant to its beliefs.
func (o *openRewards) addTo(name string, t *tenant) {
	for id, r := range o.of[name] {
		if r.in == t {
			continue
		}
		t.counters.RestoreProvisional(r.provisional)
		if r.provisional.Rewarded() {
			t.rewards++
		}
		r.in = t
		o.of[name][id] = r
	}
}

// rewarded returns the number of open sessions of a tenant with a reward.
func (o *openRewards) rewarded(name string) (n int) {
	for _, r := range o.of[name] {
		if r.provisional.Rewarded() {
			n++
		}
	}
	return n
}

// setProvisional replaces the provisional reward of a session.
func (b *beliefs) setProvisional(rec *session.Record, out feedback.Outcome, due time.Time) {
	at := session.Ref{Tenant: rec.Identity.Tenant, ID: rec.Identity.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropProvisional(at)
	if !out.OK || b.provisional.n >= mostProvisional {
		return
	}
	t := b.hold(at.Tenant)
	r := openReward{t.counters.AddProvisional(&rec.Assignment, out.Reward, out.Tier), due, t}
	if r.provisional.Rewarded() {
		t.rewards++
	}
	b.provisional.put(at, r)
}

// dropProvisional removes the provisional reward of a session. Lock b.mu.
func (b *beliefs) dropProvisional(at session.Ref) {
	r, ok := b.provisional.take(at)
	if !ok || r.in == nil || r.in != b.tenant(at.Tenant) {
		return
	}
	r.in.counters.DropProvisional(r.provisional)
	if r.provisional.Rewarded() {
		r.in.rewards--
	}
}

// dueBy returns the sessions of a tenant with a provisional reward and a closing time until when.
// Lock b.mu.
func (b *beliefs) dueBy(name string, when time.Time) (ids []session.ID) {
	for id, r := range b.provisional.of[name] {
		if !r.due.After(when) {
			ids = append(ids, id)
		}
	}
	return ids
}

// expire removes provisional rewards of sessions with a closing time before before.
func (b *beliefs) expire(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.provisional.dues) > 0 && b.provisional.dues[0].at.Before(before) {
		d := heap.Pop(&b.provisional.dues).(dueTime) //nolint:forcetypeassert // only put pushes
		if r, ok := b.provisional.of[d.of.Tenant][d.of.ID]; ok && r.due.Equal(d.at) {
			b.dropProvisional(d.of)
		}
	}
}
