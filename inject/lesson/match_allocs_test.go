//go:build !race

package lesson

import (
	"strings"
	"testing"
)

// If the race detector is on, sync.Pool drops items at random, and Match allocates them again.
func TestMatchAllocations(t *testing.T) {
	b := NewBook([]*Lesson{lessonWithKeywords("a-a", "alpha beta"), lessonWithKeywords("b-b", "gamma*")})
	miss, hit := &Query{Words: []string{strings.Repeat("nothing here ", 500)}}, &Query{Words: []string{"alpha beta"}}
	b.Match(miss)
	if n := testing.AllocsPerRun(100, func() { b.Match(miss) }); n > 1 {
		t.Errorf("Match without a hit allocates %v times, want at most 1", n)
	}
	if n := testing.AllocsPerRun(100, func() { b.Match(hit) }); n > 2 {
		t.Errorf("Match with a hit allocates %v times, want at most 2", n)
	}
}
