package spell_test

import (
	"fmt"
	"slices"
	"testing"

	"precept/internal/spell"
)

func ExampleSuggest() {
	fmt.Println(spell.Suggest("lissten", []string{"listen", "lessons"}))
	// Output: listen
}

// Suggest allows a distance of two. For a misspelt name with up to three letters, it allows a distance of one.
func TestSuggestAllowsDistanceTwo(t *testing.T) {
	names := []string{"log", "keys", "bandit", "listen"}
	for name, want := range map[string]string{
		"lo": "log", "lag": "log", "lgo": "", "xyz": "", "kesy": "keys", "key": "keys", "badnit": "bandit", "lsten": "listen", "lisn": "listen", "lst": "", "": "",
	} {
		if got := spell.Suggest(name, names); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestDistanceCountsEdits(t *testing.T) {
	cases := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"listen", "lisen", 1}, {"kitten", "sitting", 3}, {"same", "same", 0}}
	for _, tc := range cases {
		if got := spell.Distance(tc.a, tc.b); got != tc.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestSuggestReturnsNoDistantName(t *testing.T) {
	names := []string{"epsilon", "control", "holdout", "salt"}
	for misspelt, want := range map[string]string{
		"epsilonn": "epsilon", "epslion": "epsilon", "cntrl": "control", "hold_out": "holdout", "slat": "salt", "salt": "salt",
		"objective": "", "": "", "salts-of-all": "", "alt": "salt", "foo": "", "sat": "salt", "xontrxl": "control", "xontrxx": "",
	} {
		if got := spell.Suggest(misspelt, names); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", misspelt, got, want)
		}
	}
}

func TestClosestReturnsNameAtAnyDistance(t *testing.T) {
	names := []string{"commit", "review"}
	for name, want := range map[string]string{"comit": "commit", "revert the last change": "review", "commit": "commit", "": "commit"} {
		got, equal := spell.Closest(name, slices.Values(names))
		if got != want || equal != (name == want) {
			t.Errorf("Closest(%q) = %q, %v, want %q, %v", name, got, equal, want, name == want)
		}
	}
	if got, equal := spell.Closest("x", slices.Values([]string{})); got != "" || equal {
		t.Errorf("Closest without names = %q, %v, want an empty name, false", got, equal)
	}
}
