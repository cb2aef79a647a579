package storetest

import (
	"fmt"
	"time"

	"precept/internal/session"
)

// noteCases returns the cases for the distiller's notes, and for leases, which ensure that only one process at a time
// works on a task.
func noteCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"session note is deleted with the session": func(t tester, s Store) {
			writeCompleteSession(t, s, tenantA, 1)
			writeCompleteSession(t, s, tenantB, 1)
			checkSessionNote(t, s, tenantA, "")
			writeNotes(t, s, tenantA, map[int]string{1: "one"}, nil)
			checkSessionNote(t, s, tenantA, "one")
			checkSessionNote(t, s, tenantB, "")
			writeNotes(t, s, tenantA, map[int]string{1: "t\x00wo"}, nil)
			checkSessionNote(t, s, tenantA, "t\x00wo")
			writeCompleteSession(t, s, tenantA, 1) // writing the session again must keep its note
			checkSessionNote(t, s, tenantA, "t\x00wo")
			mustGet[bool](t)(s.Forget(t.Context(), tenantA, id(1)))
			checkSessionNote(t, s, tenantA, "")
			writeNotes(t, s, tenantA, map[int]string{1: "late", 9: "unknown session"}, nil)
			writeCompleteSession(t, s, tenantA, 1)
			checkSessionNote(t, s, tenantA, "")
			checkNoSession(t, s, tenantA, 9)
		},
		"notes are deleted with the tenant": func(t tester, s Store) {
			writeCompleteSession(t, s, tenantA, 1)
			writeNotes(t, s, tenantA, nil, map[string]string{"case|b": "2", "case|a": "1", "apart|x": "3", "case": "0"})
			writeNotes(t, s, tenantB, nil, map[string]string{"case|a": "other"})
			checkEqual(t, "notes with the prefix case|", notes(t, s, tenantA, "case|"), []string{"case|a=1", "case|b=2"})
			checkEqual(t, "all notes", notes(t, s, tenantA, ""), []string{"apart|x=3", "case=0", "case|a=1", "case|b=2"})
			checkEqual(t, "note case|b", string(mustGet[[]byte](t)(s.TenantNote(t.Context(), tenantA, "case|b"))), "2")
			writeNotes(t, s, tenantA, nil, map[string]string{"case|b": ""})
			writeNotes(t, s, tenantB, nil, map[string]string{"case|b": "other"})
			writeNotes(t, s, tenantA, nil, map[string]string{"case|b": ""})
			if data, err := s.TenantNote(t.Context(), tenantA, "case|b"); data != nil || err != nil {
				t.Errorf("TenantNote(deleted note): got %q, error %v, want no note and no error", data, err)
			}
			mustGet[int](t)(s.ForgetTenant(t.Context(), tenantA))
			checkEqual(t, "forgotten tenant's notes", len(notes(t, s, tenantA, "")), 0)
			checkEqual(t, "other tenant's notes", notes(t, s, tenantB, ""), []string{"case|a=other", "case|b=other"})
		},
		"all notes are listed": func(t tester, s Store) {
			want := make([]string, 0, 700)
			list := map[string]string{}
			for n := range 700 {
				list[fmt.Sprintf("n|%04d", n)] = "v"
				want = append(want, fmt.Sprintf("n|%04d=v", n))
			}
			writeNotes(t, s, tenantA, nil, list)
			checkEqual(t, "notes with the prefix n|", notes(t, s, tenantA, "n|"), want)
		},
		"lease has one owner at a time": func(t tester, s Store) {
			acquire := func(owner string, second int) bool {
				t.Helper()
				return mustGet[bool](t)(s.AcquireLease(t.Context(), "work", owner, leaseTime(second), time.Minute))
			}
			checkEqual(t, "lease for a", acquire("a", 0), true)
			checkEqual(t, "lease for b while a has the lease", acquire("b", 1), false)
			checkEqual(t, "repeated lease for a", acquire("a", 2), true)
			must(t, s.ReleaseLease(t.Context(), "work", "b")) // b does not have the lease
			checkEqual(t, "lease for b after ReleaseLease by b", acquire("b", 3), false)
			must(t, s.ReleaseLease(t.Context(), "work", "a"))
			checkEqual(t, "lease for b after ReleaseLease by a", acquire("b", 4), true)
			checkEqual(t, "lease with another name", mustGet[bool](t)(s.AcquireLease(t.Context(), "other", "a", leaseTime(4), time.Minute)), true)
		},
	}
}

func leaseTime(n int) time.Time { return atMinute(0).Add(time.Duration(n) * time.Second) }

// writeNotes writes notes on sessions, given by session number, and notes on the tenant, given by key. An empty text
// deletes a note.
func writeNotes(t tester, s Store, tenant string, bySession map[int]string, byKey map[string]string) {
	t.Helper()
	sessionNotes, tenantNotes := map[session.ID][]byte{}, map[string][]byte{}
	for k, v := range bySession {
		sessionNotes[id(k)] = []byte(v)
	}
	for k, v := range byKey {
		tenantNotes[k] = nil
		if v != "" {
			tenantNotes[k] = []byte(v)
		}
	}
	must(t, s.WriteNotes(t.Context(), tenant, sessionNotes, tenantNotes))
}

func checkSessionNote(t tester, s Store, tenant, want string) {
	t.Helper()
	checkEqual(t, "note for session 1 in "+tenant, string(mustGet[[]byte](t)(s.SessionNote(t.Context(), tenant, id(1)))), want)
}

// notes returns a string "key=text" for each note on a tenant whose key begins with prefix.
func notes(t tester, s Store, tenant, prefix string) (list []string) {
	t.Helper()
	must(t, s.EachNote(t.Context(), tenant, prefix, func(key string, data []byte) error {
		list = append(list, key+"="+string(data))
		return nil
	}))
	return list
}
