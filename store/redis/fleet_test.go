package redis_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// openReplicas returns two stores on one server.
func openReplicas(t *testing.T) (one, other *redis.Store, server *storetest.Redis) {
	t.Helper()
	server = storetest.StartRedis(t)
	return open(t, server.URL()), open(t, server.URL()), server
}

func atSecond(n int) time.Time { return time.Date(2031, 5, 6, 7, 8, 9+n, 0, time.UTC) }

// An opt-out mark counts a session's opted-out turns and items. The store keeps the mark with the largest numbers.
func TestOptOutMarksAreShared(t *testing.T) {
	one, other, server := openReplicas(t)
	ctx := t.Context()
	if _, ok, err := other.OptOutMark(ctx, sessionID(1)); err != nil {
		t.Error(err)
	} else if ok {
		t.Error("OptOutMark without a mark: ok = true, want false")
	}
	if err := one.PutOptOutMarks(ctx, nil); err != nil {
		t.Errorf("PutOptOutMarks without marks: got error %v, want none", err)
	}
	for _, m := range []session.OptOutMark{{Turns: 2, Items: 7}, {Turns: 3, Items: 9}, {Turns: 1, Items: 4}} {
		if err := one.PutOptOutMarks(ctx, map[session.ID]session.OptOutMark{sessionID(1): m, sessionID(2): {Turns: 1, Items: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if m, ok, err := other.OptOutMark(ctx, sessionID(1)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("OptOutMark on another replica: ok = false, want true")
	} else if m != (session.OptOutMark{Turns: 3, Items: 9}) {
		t.Errorf("OptOutMark on another replica = %+v, want %+v", m, (session.OptOutMark{Turns: 3, Items: 9}))
	}
	if m, ok, err := other.OptOutMark(ctx, sessionID(2)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("OptOutMark(another session): ok = false, want true")
	} else if m.Items != 1 {
		t.Errorf("OptOutMark(another session): Items = %d, want 1", m.Items)
	}
	keys := fmt.Sprint(server.MustDo(t, "KEYS", "*"))
	for n := range 3 {
		if id := sessionID(n); strings.Contains(keys, id.String()) {
			t.Errorf("keys contain the id of session %d as text", n)
		} else if strings.Contains(keys, string(id[:])) {
			t.Errorf("keys contain the id of session %d as bytes", n)
		}
	}
}

func TestErasuresAreReadInOrder(t *testing.T) {
	one, other, server := openReplicas(t)
	ctx := t.Context()
	if list, err := other.Erasures(ctx, ""); err != nil {
		t.Error(err)
	} else if len(list) != 0 {
		t.Errorf("Erasures before the first announcement = %+v, want none", list)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	announced := []session.Erasure{
		{Tenant: "default", IDs: []session.ID{sessionID(1), sessionID(2)}, At: now},
		{Tenant: "acme", At: now.Add(time.Second)},
		{Tenant: "default", IDs: []session.ID{sessionID(3)}, At: now.Add(2 * time.Second)},
	}
	for i := range announced {
		position, err := one.Announce(ctx, announced[i])
		if err != nil {
			t.Fatal(err)
		}
		if position == "" {
			t.Fatal("Announce: position is empty")
		}
		announced[i].Position = position
	}
	check := func(after string, want []session.Erasure) {
		t.Helper()
		list, err := other.Erasures(ctx, after)
		equal := slices.EqualFunc(list, want, func(a, b session.Erasure) bool {
			return a.Position == b.Position && a.Tenant == b.Tenant && a.At.Equal(b.At) && slices.Equal(a.IDs, b.IDs)
		})
		if err != nil {
			t.Errorf("Erasures(%q): %v", after, err)
		} else if !equal {
			t.Errorf("Erasures(%q): equal = false, want true", after)
		}
	}
	check("", announced)
	for i := range announced {
		check(announced[i].Position, announced[i+1:])
	}
	keys, _ := server.MustDo(t, "KEYS", "*erasures").([]any)
	if len(keys) != 1 {
		t.Fatalf("announcement keys: got %v, want one", keys)
	}
	server.MustDo(t, "XADD", fmt.Sprint(keys[0]), "*", "t", "default", "i", "torn", "at", "1")
	list, err := other.Erasures(ctx, announced[2].Position)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("Erasures with a damaged announcement = %+v, want 1 item", list)
	}
	if list[0].Tenant != "" {
		t.Errorf(`Erasures with a damaged announcement: Tenant = %q, want ""`, list[0].Tenant)
	}
	if len(list[0].IDs) != 0 {
		t.Errorf("Erasures with a damaged announcement: IDs = %+v, want none", list[0].IDs)
	}
	for _, position := range []string{"1-x", "-", "7-"} {
		if list, err := other.Erasures(ctx, position); err == nil {
			t.Errorf("Erasures(%q): got %v, want an error for an invalid position", position, list)
		}
	}
}

func TestAnswerIsReturnedUntilDeleted(t *testing.T) {
	one, other, _ := openReplicas(t)
	ctx := t.Context()
	if err := one.Write(ctx, newBatch(1)); err != nil {
		t.Fatal(err)
	}
	check := func(moment string, n int, name, want string) {
		t.Helper()
		text, ok, err := other.Answer(ctx, "default", sessionID(n), name)
		if err != nil {
			t.Errorf("Answer %s: %v", moment, err)
		} else if ok != (want != "") {
			t.Errorf("Answer %s: ok = %v, want %v", moment, ok, (want != ""))
		} else if text != want {
			t.Errorf("Answer %s = %q, want %q", moment, text, want)
		}
	}
	for _, tc := range []struct{ name, text string }{{"answer", "first"}, {"answer", "OK: recorded"}, {"other", "more"}} {
		if err := one.PutAnswer(ctx, "default", sessionID(1), tc.name, tc.text); err != nil {
			t.Fatal(err)
		}
	}
	check("after PutAnswer", 1, "answer", "OK: recorded")
	check("in the second call after PutAnswer", 1, "answer", "OK: recorded")
	if err := one.DeleteAnswer(ctx, "default", sessionID(1), "answer"); err != nil {
		t.Fatal(err)
	}
	check("after DeleteAnswer", 1, "answer", "")
	check("under another name", 1, "other", "more")
	if err := one.PutAnswer(ctx, "default", sessionID(2), "answer", "x"); err != nil {
		t.Fatal(err)
	}
	check("for an unknown session", 2, "answer", "")
	if err := one.PutAnswer(ctx, "default", sessionID(1), "answer", "x"); err != nil {
		t.Fatal(err)
	}
	if found, err := one.Forget(ctx, "default", sessionID(1)); err != nil {
		t.Fatal(err)
	} else if !found {
		t.Fatal("Forget: found = false, want true")
	}
	check("for a forgotten session", 1, "answer", "")
}

// A bank.Consultation counts the matches of a lesson. The store must count a repeated batch once.
func TestConsultationBatchIsCountedOnce(t *testing.T) {
	one, other, _ := openReplicas(t)
	ctx := t.Context()
	for i, call := range []struct {
		s     *redis.Store
		batch string
		count int64
	}{{one, "1", 1}, {other, "2", 2}, {one, "3", 3}, {one, "3", 3}, {other, "2", 90}} {
		if err := call.s.AddConsultations(ctx, call.batch, map[string]bank.Consultation{"a": {Count: call.count, Last: atSecond(i % 3)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.AddConsultations(ctx, "4", map[string]bank.Consultation{"a": {Last: atSecond(0)}}); err != nil { // a count of 0 with an earlier time must change nothing
		t.Fatal(err)
	}
	if err := other.AddConsultations(ctx, "5", nil); err != nil {
		t.Errorf("AddConsultations without lessons: got error %v, want none", err)
	}
	got, err := other.Consultations(ctx, []string{"a", "b"})
	want := map[string]bank.Consultation{"a": {Count: 6, Last: atSecond(2)}}
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("Consultations = %+v, want %+v", got, want)
	}
	if got, err := other.Consultations(ctx, nil); err != nil {
		t.Error(err)
	} else if len(got) != 0 {
		t.Errorf("Consultations(nil) = %+v, want none", got)
	}
}

// A replica reads a tenant's data again only if the tenant's position has changed.
func TestPositionChangesOnlyWithTenantData(t *testing.T) {
	one, other, _ := openReplicas(t)
	ctx := t.Context()
	position := func() session.Position {
		t.Helper()
		all, err := other.Positions(ctx, []string{"default"})
		if err != nil {
			t.Fatal(err)
		}
		return all["default"]
	}
	if err := one.Write(ctx, newBatch(1)); err != nil {
		t.Fatal(err)
	}
	before := position()
	if second := position(); second != before {
		t.Errorf("position without another write: got %+v, want %+v as before", second, before)
	}
	postScore(t, one, 1, "f1", 1)
	after := position()
	if after.ProvisionalRewards == before.ProvisionalRewards {
		t.Errorf("position after new feedback: got %+v, want ProvisionalRewards to differ from %+v", after, before)
	}
	postScore(t, one, 1, "f1", 1) // a repeated post
	if second := position(); second != after {
		t.Errorf("position after repeated feedback: got %+v, want %+v as before", second, after)
	}
	step := session.Settlement{Tenant: "default", ID: sessionID(1)}
	for _, accepted := range []bool{true, false} {
		if ok, err := one.Settle(ctx, []session.Settlement{step}); err != nil {
			t.Fatal(err)
		} else if ok[0] != accepted {
			t.Fatalf("Settle: ok[0] = %v, want %v", ok[0], accepted)
		}
		if now := position(); (now.Counters != after.Counters) != accepted {
			t.Errorf("position after a settlement with accepted = %v: got %+v after %+v, want a changed Counters field: %[1]v", accepted, now, after)
		}
		after = position()
	}
}
