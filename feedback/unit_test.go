package feedback

import (
	"fmt"
	"testing"
)

// What is said of a run is written once for each of its sessions: thousands of entries times
// thousands of sessions must not come of it.
func TestMembersHearTheFirstOfMany(t *testing.T) {
	t.Parallel()
	entries := []Entry{{ID: "signal", Rule: "tests"}, {ID: "a member's", Via: "m"}}
	for i := range 3 * mostShared {
		entries = append(entries, Entry{ID: fmt.Sprint(i), Source: SourceUser})
	}
	list := ForMembers("unit", entries)
	if len(list) != mostShared || list[0].Hash != entries[2].OfUnit("unit").Hash || list[0].Via != "unit" {
		t.Errorf("%d entries, the first %+v", len(list), list[0])
	}
}
