package session

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLooksRandomNeeds40Bits(t *testing.T) {
	for key, want := range map[string]bool{
		"c:call_1":                        false,
		"c:call_mockstep_1":               false,
		"c:functions.bash:0":              false,
		"c:bash":                          false,
		"c:call_abc123":                   false,
		"c:":                              false,
		"":                                false,
		"c:call_aB3dE5fG7hI9jK1lM3nO5pQ7": true,
		"c:toolu_01A09q90qw90lq917835lq9": true,
		"c:D681PevKs":                     true,
		"c:chatcmpl-tool-1f0e2d3c4b5a69788796a5b4":  true,
		"i:msg_01a1fa5b-237d-7350-879e-9faaa3f875f": true,
		"i:msg_mock":                             false,
		"c:aaaaaaaa1":                            false, // 36 bits
		"c:zzzzzzzzz1":                           true,  // 40 bits
		"c:AAAAAAAAZ1":                           true,
		"c:1234567890123":                        true,  // 43 bits
		"c:123456789012":                         false, // 39.5 bits
		"c:call_0000000000012345":                false, // fixed-width counter
		"c:00000000-0000-0000-0000-000000000012": false,
		"c:00f1e2d3-00b5-0978-0796-0000b4c5d6e7": true,
	} {
		if got := looksRandom(key); got != want {
			t.Errorf("looksRandom(%q) = %v, want %v", key, got, want)
		}
	}
}

func TestEchoKeysDifferByTenantAndCredential(t *testing.T) {
	keys := map[EchoKey]bool{}
	for _, tenant := range []string{"a", "b"} {
		for _, cred := range []uint64{0, 1} {
			for _, key := range []string{"c:x", "c:y"} {
				keys[echoKey(Scope{Tenant: tenant, Credential: cred}, key, 0)] = true
			}
		}
	}
	if len(keys) != 8 {
		t.Errorf("got %d different keys for all combinations of 2 tenants, 2 credentials and 2 items, want 8", len(keys))
	}
	for key, want := range map[string]bool{
		"c:call_1": true, "t:0123456789abcdef": true, "r:resp_1": false, "c:toolu_01A09q90qw90lq917835lq9": false,
	} {
		if mayRepeat(key) != want {
			t.Errorf("mayRepeat(%q) = %v, want %v", key, !want, want)
		}
	}
}

func scopedID(n int) ID { return ID{byte(n), byte(n >> 8)} }

func TestIndexKeepsNewestKeys(t *testing.T) {
	x := newIndex(4)
	key := func(n int) EchoKey { return EchoKey(n) + 1 }
	for n := range 10 {
		if !x.add(key(n), owner{scopedID(n), stampReply}) {
			t.Fatalf("add(new key %d) = false, want true", n)
		}
	}
	for n := range 10 {
		got := x.owners(key(n))
		if n < 6 && len(got) != 0 {
			t.Errorf("evicted key %d: got owners %v, want none", n, got)
		}
		if n >= 6 && (len(got) != 1 || got[0].id != scopedID(n)) {
			t.Errorf("key %d: got owners %v, want [%v]", n, got, scopedID(n))
		}
	}
	if n := len(x.last); n != 4 {
		t.Errorf("got %d keys in the index, want 4 (the limit)", n)
	}
}

func TestIndexBoundsOwnersPerKey(t *testing.T) {
	x := newIndex(300)
	for n := range maxOwners + 8 {
		x.add(7, owner{scopedID(n), stampReply})
	}
	got := x.owners(7)
	if len(got) != maxOwners {
		t.Fatalf("got %d owners for one key, want %d", len(got), maxOwners)
	}
	for i, o := range got {
		if o.id != scopedID(maxOwners+7-i) {
			t.Fatalf("owner %d: got %v, want %v (newest first)", i, o.id, scopedID(maxOwners+7-i))
		}
	}
	if x.add(7, owner{scopedID(maxOwners + 7), stampRequest}) {
		t.Error("add(known owner) = true, want false")
	}
	if x.owners(7)[0].stamp != stampReply {
		t.Errorf("owner added again with a request stamp: got stamp %v, want the old stamp %v", x.owners(7)[0].stamp, stampReply)
	}
}

func TestIndexMatchesListModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		x := newIndex(limit)
		type pair struct {
			k EchoKey
			o ID
		}
		var model []pair // newest first
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			p := pair{EchoKey(rapid.IntRange(1, 4).Draw(t, "key")), scopedID(rapid.IntRange(0, 5).Draw(t, "id"))}
			known := false
			for _, m := range model {
				known = known || m == p
			}
			if x.add(p.k, owner{p.o, 0}) == known {
				t.Fatalf("add(%v) = %v, want %v", p, known, !known)
			}
			if !known {
				model = append([]pair{p}, model...)
				model = model[:min(len(model), limit)]
			}
			for k := EchoKey(1); k <= 4; k++ {
				var want []ID
				for _, m := range model {
					if m.k == k {
						want = append(want, m.o)
					}
				}
				got := x.owners(k)
				if len(got) != len(want) {
					t.Fatalf("key %d: got owners %v, want %v", k, got, want)
				}
				for i := range got {
					if got[i].id != want[i] {
						t.Fatalf("key %d: got owners %v, want %v", k, got, want)
					}
				}
			}
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	x := newIndex(400_000)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		k := EchoKey(n * 0x9e3779b97f4a7c15)
		x.add(k, owner{ID{byte(n)}, stampReply})
		if len(x.owners(k)) != 1 {
			b.Fatalf("new key: got %d owners, want 1", len(x.owners(k)))
		}
	}
}
