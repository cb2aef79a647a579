package redis

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/trial"
	"precept/internal/session"
)

// SettledState returns a session's state after the last settlement. The zero value means that the session was never
// settled.
func (s *Store) SettledState(ctx context.Context, tenant string, id session.ID) (a session.SettledState, err error) {
	text, ok, err := s.readField(ctx, "applied", sessionLocation(tenant, id), "s:"+id.String(), "a")
	if !ok {
		return a, err
	}
	return decodeSettledState(string(text))
}

// packSettledState encodes a settled state without the version: rewarded (1 byte), tier (8), reward (8) and the
// assignment at close. settle.lua prepends the version and a space.
func packSettledState(a session.SettledState) string {
	b := []byte(boolDigit(a.Rewarded))
	b = binary.BigEndian.AppendUint64(b, uint64(a.Tier)) //nolint:gosec // decodeSettledState converts the same bits back
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(a.Reward))
	return string(append(b, a.AssignmentAtClose...))
}

func decodeSettledState(text string) (a session.SettledState, err error) {
	version, rest, _ := strings.Cut(text, " ")
	if a.Version, err = strconv.ParseInt(version, 10, 64); err != nil || len(rest) < 17 {
		return session.SettledState{}, fmt.Errorf("%w: a settled session is truncated", ErrCorrupt)
	}
	b := []byte(rest)
	a.Rewarded, a.Tier = b[0] == '1', int(binary.BigEndian.Uint64(b[1:9])) //nolint:gosec // packSettledState has converted the same bits
	a.Reward, a.AssignmentAtClose = math.Float64frombits(binary.BigEndian.Uint64(b[9:17])), b[17:]
	return a, nil
}

// Settle applies settlements; each one counts a session's reward. A settlement is applied only if the session still has
// version From: Settle then adds the deltas to the counters, and stores To with version From+1. A settlement with From
// 0 also closes the session. If a settlement is not applied, the caller reads SettledState and computes the settlement
// again.
//
// An applied settlement removes the session from UnsettledSessions, unless feedback or exchanges have arrived in the
// meantime. After an error some settlements might have been applied. The versions make a retry safe.
func (s *Store) Settle(ctx context.Context, steps []session.Settlement) ([]bool, error) {
	applied := make([]bool, len(steps))
	p := newPlan("settle")
	tenants := map[string]bool{}
	for i := range steps {
		tenants[steps[i].Tenant] = true
		p.add(sessionLocation(steps[i].Tenant, steps[i].ID), append(stepArgs(&steps[i]), packDeltas(steps[i].Deltas))...)
	}
	if err := s.writePlan(ctx, "settle", p, slices.Collect(maps.Keys(tenants))...); err != nil {
		return nil, err
	}
	for i, n := range p.results() {
		applied[i] = n > 0
	}
	s.progress.recordOwnSettlements(p, int(s.shards.Load()))
	return applied, nil
}

func stepArgs(st *session.Settlement) []any {
	args := []any{string(st.ID[:]), strconv.FormatInt(st.From, 10), strconv.FormatInt(st.From+1, 10), packSettledState(st.To), strconv.FormatInt(st.FeedbackState, 10)}
	var order []string
	sums := map[string]map[string]int64{}
	for _, d := range st.Deltas {
		name := rowName(d.Key.Scope, d.Key.Day)
		if sums[name] == nil {
			sums[name] = map[string]int64{}
			order = append(order, name)
		}
		sums[name][d.Key.Field] += d.Value
	}
	args = append(args, strconv.Itoa(len(order)))
	for _, name := range order {
		args = append(args, hex.EncodeToString([]byte(digest(name))), name, strconv.Itoa(len(sums[name])))
		for field, v := range sums[name] {
			args = append(args, field, strconv.FormatInt(v, 10))
		}
	}
	return args
}

// rowName returns a counter row's name: the day, a space and the scope.
func rowName(scope string, day int32) string { return strconv.Itoa(int(day)) + " " + scope }

func parseRowName(name string) (trial.Key, error) {
	day, scope, ok := strings.Cut(name, " ")
	n, err := strconv.ParseInt(day, 10, 32)
	if !ok || err != nil {
		return trial.Key{}, fmt.Errorf("%w: a counter row has the invalid name %q", ErrCorrupt, name)
	}
	return trial.Key{Scope: scope, Day: int32(n)}, nil
}
