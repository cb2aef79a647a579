package storetest

import (
	"precept/internal/session"
)

// echoCases returns the cases for echo keys, the hashes of ids and texts by which a session is found.
func echoCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"unknown key has no sessions": func(t tester, s Store) {
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 1, 2), map[session.EchoKey][]session.ID{})
			checkEqual(t, "sessions found without keys", echoes(t, s, tenantA), map[session.EchoKey][]session.ID{})
		},
		"newest session for a key is listed first": func(t tester, s Store) {
			write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, 1, 1), echo(tenantA, 7, 2, 3), echo(tenantA, 7, 3, 2), echo(tenantA, 8, 1, 1)}})
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 7, 8, 9), map[session.EchoKey][]session.ID{7: {id(2), id(3), id(1)}, 8: {id(1)}})
		},
		"only the newest sessions for a key are kept": func(t tester, s Store) {
			for n := range 25 {
				n = n * 7 % 25
				write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, n, n)}})
			}
			var want []session.ID
			for n := range session.MaxEchoSessions {
				want = append(want, id(24-n))
			}
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 7), map[session.EchoKey][]session.ID{7: want})
		},
		"session is listed once, at the latest time": func(t tester, s Store) {
			write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, 1, 1), echo(tenantA, 7, 2, 2), echo(tenantA, 7, 1, 3), echo(tenantA, 7, 1, 0)}})
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 7), map[session.EchoKey][]session.ID{7: {id(1), id(2)}})
		},
		"repeated batches change nothing": func(t tester, s Store) {
			b := session.Batch{Echoes: []session.Echo{echo(tenantA, 7, 1, 1), echo(tenantA, 7, 2, 2)}}
			write(t, s, b)
			write(t, s, b)
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 7), map[session.EchoKey][]session.ID{7: {id(2), id(1)}})
		},
		"key requested twice is returned once": func(t tester, s Store) {
			write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, 1, 1)}})
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, 7, 7), map[session.EchoKey][]session.ID{7: {id(1)}})
		},
		"echo without a row is found": func(t tester, s Store) {
			write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, 1, 1)}})
			checkNoSession(t, s, tenantA, 1)
			checkEqual(t, "due sessions", len(dueSessions(t, s, atMinute(100), session.Row{}, 10)), 0)
			checkEqual(t, "stored sessions", stats(t, s)["sessions"], int64(0))
			write(t, s, session.Batch{Rows: []session.Row{row(tenantA, 1, 0)}})
			checkEqual(t, "row", mustSession(t, s, tenantA, 1), row(tenantA, 1, 0))
			checkEqual(t, "due sessions", len(dueSessions(t, s, atMinute(100), session.Row{}, 10)), 1)
			checkEqual(t, "stored sessions", stats(t, s)["sessions"], int64(1))
		},
		"tenants are separate": func(t tester, s Store) {
			for n := range 4 {
				write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, 7, n, n), echo(tenantB, 7, 10+n, 10+n)}})
			}
			checkEqual(t, "tenant A's echoes", echoes(t, s, tenantA, 7)[7], []session.ID{id(3), id(2), id(1), id(0)})
			checkEqual(t, "tenant B's echoes", echoes(t, s, tenantB, 7)[7], []session.ID{id(13), id(12), id(11), id(10)})
			checkEqual(t, "unknown tenant's echoes", echoes(t, s, "unknown", 7), map[session.EchoKey][]session.ID{})
		},
		"keys use all 64 bits": func(t tester, s Store) {
			const high = session.EchoKey(1<<63 + 7)
			write(t, s, session.Batch{Echoes: []session.Echo{echo(tenantA, high, 1, 1), echo(tenantA, 0, 2, 2), echo(tenantA, ^session.EchoKey(0), 3, 3)}})
			checkEqual(t, "sessions by key", echoes(t, s, tenantA, high, 7, 0, ^session.EchoKey(0)),
				map[session.EchoKey][]session.ID{high: {id(1)}, 0: {id(2)}, ^session.EchoKey(0): {id(3)}})
		},
	}
}

// echo returns an echo, which records that the key k occurred in session n at the given minute.
func echo(tenant string, k session.EchoKey, n, minute int) session.Echo {
	return session.Echo{Tenant: tenant, Key: k, ID: id(n), At: atMinute(minute)}
}

func echoes(t tester, s Store, tenant string, keys ...session.EchoKey) map[session.EchoKey][]session.ID {
	t.Helper()
	return mustGet[map[session.EchoKey][]session.ID](t)(s.FindEcho(t.Context(), tenant, keys))
}
