package redis

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// joinEpoch folds the mark in the data and the servers' run ids, in any order, into one word.
func joinEpoch(mark string, runs []string) string {
	slices.Sort(runs)
	sum := sha256.Sum256([]byte(mark + " " + strings.Join(runs, " ")))
	return hex.EncodeToString(sum[:12])
}
