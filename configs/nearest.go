package configs

import (
	"maps"
	"slices"
	"strings"
)

// nearest returns the known key that is closest to a misspelled key, or a list of all keys.
func nearest(name string, known map[string]int) string {
	if best := Nearest(name, slices.Sorted(maps.Keys(known))); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; " + listed(known)
}

// listed returns the sorted names as one text.
func listed[V any](known map[string]V) string {
	if len(known) == 1 {
		return "there is only " + slices.Sorted(maps.Keys(known))[0]
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// Nearest returns the name that is closest to a misspelled name, empty if none is near: at most two
// wrong letters, and one letter in three.
func Nearest(name string, names []string) string {
	best, distance := "", 3
	if len(name) < 4 {
		distance = 2
	}
	for _, k := range names {
		if n := editDistance(name, k); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// renamed returns the name that a key of an earlier release has now, "" where there is none.
func renamed(key string) string {
	if key == "limits.spool_bytes" {
		return "limits.outbox_bytes"
	}
	return ""
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
