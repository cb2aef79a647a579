package detect_test

import "testing"

func TestRespelledSQLIsTheSameCall(t *testing.T) {
	sqlStep := func(statement string) testStep {
		return call("run_sql", jsonArgs("sql", statement), `ERROR: column "nmae" does not exist`)
	}
	for _, tc := range []struct {
		first, second string
		loops         int
	}{
		{"SELECT nmae FROM shops", "select nmae from shops;", 1},
		{"SELECT nmae\nFROM shops", "SELECT nmae FROM shops", 1},
		{"select nmae from shops where x = 'A'", "select nmae from shops where x = 'a'", 0},
		{"select nmae from shops", "select nmae from banks", 0},
	} {
		if got := countLoops(t, sqlStep(tc.first), sqlStep(tc.second)); got != tc.loops {
			t.Errorf("%q and %q: got %d loops, want %d", tc.first, tc.second, got, tc.loops)
		}
	}
}

// Equal failures can differ in random names of temporary files, log files, seeds and hosts.
func TestRandomNamesDoNotChangeTheResult(t *testing.T) {
	for _, pair := range [][2]string{
		{"cannot open /tmp/tmp.aBcDeFgH/x", "cannot open /tmp/tmp.QwErTzUi/x"},
		{"cannot open /tmp/pack-q81mz2/x", "cannot open /tmp/pack-p07ka9/x"},
		{"log in /home/x/2026-02-03T04_05_06_789Z-1.log", "log in /home/x/2026-02-03T11_15_16_123Z-1.log"},
		{"1 failed with seed 8812", "1 failed with seed 914"},
		{"refused, host id: kx8", "refused, host id: pQ2"},
	} {
		if got := countLoops(t, bash("./run", pair[0]+"\n\nCommand exited with code 1"), bash("./run", pair[1]+"\n\nCommand exited with code 1")); got != 1 {
			t.Errorf("%q and %q: got %d loops, want 1", pair[0], pair[1], got)
		}
	}
	differ := [2]string{"cannot open /tmp/alpha/x", "cannot open /tmp/gamma/x"}
	if got := countLoops(t, bash("./run", differ[0]+"\n\nCommand exited with code 1"), bash("./run", differ[1]+"\n\nCommand exited with code 1")); got != 0 {
		t.Errorf("%q and %q: got %d loops, want none", differ[0], differ[1], got)
	}
}
