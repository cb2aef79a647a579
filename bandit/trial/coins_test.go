package trial_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// With the documented hash, a reader of an export can recompute the random decisions.
func TestCoinMatchesDocumentedHash(t *testing.T) {
	h := sha256.Sum256([]byte("salt\x00holdout\x00session\x00slug"))
	want := float64(binary.BigEndian.Uint64(h[:8])>>11) / (1 << 53)
	if got := trial.Coin("salt", trial.ForHoldout, "session", "slug"); got != want {
		t.Errorf("Coin = %v, want %v", got, want)
	}
	long := string(make([]byte, 1000)) // longer than Coin's buffer
	h = sha256.Sum256([]byte("s\x00draw\x00" + long + "\x00x"))
	if got := trial.Coin("s", trial.ForDraw, long, "x"); got != float64(binary.BigEndian.Uint64(h[:8])>>11)/(1<<53) {
		t.Errorf("Coin for a 1000-byte session name = %v, want a hash of the whole name", got)
	}
}

func TestDifferentInputsHaveDifferentCoins(t *testing.T) {
	seen := map[float64]string{}
	for _, p := range []trial.Purpose{trial.ForControl, trial.ForHoldout, trial.ForDraw, trial.ForProbe} {
		for _, k := range [][3]string{{"a", "b", "c"}, {"a", "bc", ""}, {"ab", "", "c"}, {"", "abc", ""}} {
			u := trial.Coin(k[0], p, k[1], k[2])
			if u < 0 || u >= 1 {
				t.Fatalf("%v %v: Coin = %v, want a number in [0, 1)", p, k, u)
			}
			if was, ok := seen[u]; ok {
				t.Errorf("Coin(%v, %v) is the same number as the coin for %s, want different numbers", p, k, was)
			}
			seen[u] = fmt.Sprint(p, k)
		}
	}
}

// With a poor hash function, each lesson could be withheld in the right share of sessions, and two lessons could still
// be withheld together too often.
func TestLessonCoinsAreIndependent(t *testing.T) {
	const lessons, sessions, eps = 60, 20_000, 0.2
	names := make([]string, sessions)
	for s := range names {
		names[s] = fmt.Sprintf("%032x", s)
	}
	withheld := make([][]uint64, lessons) // one bit per session
	share := make([]float64, lessons)
	for j := range withheld {
		withheld[j] = make([]uint64, sessions/64+1)
		slug := fmt.Sprintf("lesson-%d", j)
		for s, session := range names {
			if trial.Coin("salt", trial.ForHoldout, session, slug) < eps {
				withheld[j][s/64] |= 1 << (s % 64)
				share[j] += 1.0 / sessions
			}
		}
		if math.Abs(share[j]-eps) > 4*math.Sqrt(eps*(1-eps)/sessions) {
			t.Errorf("lesson %d: withheld share = %v, want %v", j, share[j], eps)
		}
	}
	for i := range lessons {
		for j := range i {
			both := 0
			for w := range withheld[i] {
				both += bits.OnesCount64(withheld[i][w] & withheld[j][w])
			}
			cov := float64(both)/sessions - share[i]*share[j]
			if r := cov / math.Sqrt(share[i]*(1-share[i])*share[j]*(1-share[j])); math.Abs(r) > 0.035 {
				t.Errorf("coins for lessons %d and %d: correlation = %.3f, want at most 0.035", i, j, r)
			}
		}
	}
}

func TestNormalReturnsQuantiles(t *testing.T) {
	for _, tc := range []struct{ u, want float64 }{{0.5, 0}, {0.975, 1.959964}, {0.025, -1.959964}, {0.8413447, 1}} {
		if got := trial.NormalQuantile(tc.u); math.Abs(got-tc.want) > 1e-5 {
			t.Errorf("NormalQuantile(%v) = %v, want %v", tc.u, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		u := float64(rapid.Uint64Range(0, 1<<53-1).Draw(t, "u")) / (1 << 53)
		if z := trial.NormalQuantile(u); math.IsInf(z, 0) || math.IsNaN(z) || math.Abs(z) > 9 {
			t.Fatalf("NormalQuantile(%v) = %v, want a finite number from -9 to 9", u, z)
		}
	})
}

func BenchmarkCoin(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		trial.Coin("salt", trial.ForHoldout, "00112233445566778899aabbccddeeff", "verify-page-id")
	}
}
