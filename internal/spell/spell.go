// Package spell finds the name that a misspelt name most likely means.
package spell

import "iter"

// Suggest returns the name with the smallest Distance to a misspelt name, or "" if that distance exceeds 2. For a
// misspelt name with up to three bytes, the limit is 1.
func Suggest(name string, names []string) string {
	best, distance := "", 3
	if len(name) < 4 {
		distance = 2
	}
	for _, k := range names {
		if n := Distance(name, k); n < distance {
			best, distance = k, n
		}
	}
	return best
}

// Closest returns the first name with the smallest Distance to name, however large the distance is. equal reports
// whether the two names are equal.
func Closest[N ~string](name string, names iter.Seq[N]) (closest N, equal bool) {
	best := -1
	for k := range names {
		if d := Distance(name, string(k)); best < 0 || d < best {
			closest, best = k, d
		}
	}
	return closest, best == 0
}

// Distance returns the number of inserted, deleted and replaced bytes between two names (Levenshtein).
func Distance(a, b string) int {
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
