package configs

import (
	"slices"
	"strings"
)

// nearest names the known key that a misspelt one most likely means, or lists them.
func nearest(name string, known map[string]int) string {
	best, distance := "", 3
	all := make([]string, 0, len(known))
	for k := range known {
		all = append(all, k)
	}
	slices.Sort(all)
	for _, k := range all {
		if n := editDistance(name, k); n < distance {
			best, distance = k, n
		}
	}
	if best != "" {
		return "; did you mean " + best + "?"
	}
	return "; there are " + strings.Join(all, ", ")
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
