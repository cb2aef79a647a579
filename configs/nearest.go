package configs

import (
	"maps"
	"slices"
	"strings"
)

// nearest names the known key that a misspelt one most likely means, or lists them.
func nearest(name string, known map[string]int) string {
	if best := Nearest(name, slices.Sorted(maps.Keys(known))); best != "" {
		return "; did you mean " + best + "?"
	}
	return "; " + listed(known)
}

// listed says which names there are.
func listed[V any](known map[string]V) string {
	if len(known) == 1 {
		return "there is only " + slices.Sorted(maps.Keys(known))[0]
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// Nearest is the name that a misspelt one most likely means, "" where none is near: two letters are
// wrong at most, one of three.
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
