package storetest

import (
	"fmt"

	"precept/bandit/trial"
)

// modelCases returns the cases for maxima (values that only rise), for priors (the first values for new lessons), and
// for values that InitMeta stores only once.
func modelCases() map[string]func(tester, Store) {
	return map[string]func(tester, Store){
		"maxima only rise": func(t tester, s Store) {
			checkEqual(t, "empty store's maxima", len(maxima(t, s, tenantA)), 0)
			for _, v := range []int64{-5, -7, 3, 2, 9, 9, 4} {
				must(t, s.RaiseMaxima(t.Context(), tenantA, []trial.Delta{delta("a@1", "emax+", 0, v), delta("a@1", "proven", 0, -v)}))
			}
			checkEqual(t, "maxima", maxima(t, s, tenantA), []trial.Delta{delta("a@1", "emax+", 0, 9), delta("a@1", "proven", 0, 7)})
		},
		"maxima are sorted and separate from the counters": func(t tester, s Store) {
			settle(t, s, settlement(tenantA, 1, 0, delta("a@1", "emax+", 0, 100)))
			must(t, s.RaiseMaxima(t.Context(), tenantA, []trial.Delta{delta("b@1", "emax+", 2, 1), delta("a@1", "emax+", 0, 2), delta("b@1", "emax+", 1, 3), delta("b@1", "emax-", 0, 4)}))
			must(t, s.RaiseMaxima(t.Context(), tenantB, []trial.Delta{delta("a@1", "emax+", 0, 50)}))
			must(t, s.RaiseMaxima(t.Context(), tenantA, nil))
			checkEqual(t, "tenant A's maxima", maxima(t, s, tenantA), []trial.Delta{
				delta("a@1", "emax+", 0, 2), delta("b@1", "emax+", 1, 3), delta("b@1", "emax+", 2, 1), delta("b@1", "emax-", 0, 4),
			})
			checkEqual(t, "tenant B's maxima", maxima(t, s, tenantB), []trial.Delta{delta("a@1", "emax+", 0, 50)})
			checkEqual(t, "counters", counters(t, s, tenantA), []trial.Delta{delta("a@1", "emax+", 0, 100)})
		},
		"PutPriors is accepted only from the current version": func(t tester, s Store) {
			checkPriors(t, s, tenantA, 0, "")
			for _, c := range []struct {
				from int64
				data string
				ok   bool
			}{{1, "x", false}, {0, "one", true}, {0, "again", false}, {1, "two", true}, {1, "late", false}, {2, "", true}} {
				checkEqual(t, fmt.Sprintf("PutPriors(version %[2]d, %[1]q)", c.data, c.from), mustGet[bool](t)(s.PutPriors(t.Context(), tenantA, c.from, []byte(c.data))), c.ok)
			}
			checkPriors(t, s, tenantA, 3, "")
			checkEqual(t, "PutPriors(version 3)", mustGet[bool](t)(s.PutPriors(t.Context(), tenantA, 3, []byte("f\x00ur"))), true)
			checkPriors(t, s, tenantA, 4, "f\x00ur")
			checkPriors(t, s, tenantB, 0, "")
		},
		"InitMeta keeps the first value": func(t tester, s Store) {
			checkEqual(t, "value after the first InitMeta", string(mustGet[[]byte](t)(s.InitMeta(t.Context(), "salt", []byte("one")))), "one")
			checkEqual(t, "value after the second InitMeta", string(mustGet[[]byte](t)(s.InitMeta(t.Context(), "salt", []byte("two")))), "one")
			checkEqual(t, "empty value after InitMeta", string(mustGet[[]byte](t)(s.InitMeta(t.Context(), "empty", nil))), "")
			checkMeta(t, s, "salt", "one", true)
			checkMeta(t, s, "empty", "", true)
			checkMeta(t, s, "Salt", "", false)
		},
	}
}

func maxima(t tester, s Store, tenant string) []trial.Delta {
	t.Helper()
	return mustGet[[]trial.Delta](t)(s.Maxima(t.Context(), tenant))
}

func checkPriors(t tester, s Store, tenant string, version int64, data string) {
	t.Helper()
	v, d, err := s.Priors(t.Context(), tenant)
	must(t, err)
	if v != version || string(d) != data {
		t.Errorf("Priors(%s): got version %d with data %q, want version %d with data %q", tenant, v, d, version, data)
	}
}

func checkMeta(t tester, s Store, key, value string, exists bool) {
	t.Helper()
	v, ok, err := s.Meta(t.Context(), key)
	must(t, err)
	if ok != exists || string(v) != value {
		t.Errorf("Meta(%q): got %q, found = %v, want %q, found = %v", key, v, ok, value, exists)
	}
}
