package feedback

import "slices"

// A unit is several sessions that are randomised as a whole: a run, or a named session with sub-agents. The unit has
// one assignment and one reward.
//
// A member's entry is copied to the unit without the text. The unit's entry is copied to each member when the unit is
// closed, and to closed members when the entry is corrected. Copying an entry again adds nothing, because the copy's id
// is derived from the original.

// Limits for the copies, because a unit may have thousands of members.
const (
	maxSignalMembers = 1024 // members with implicit feedback copied to the unit; people's feedback is always copied
	maxSharedEntries = 32   // unit entries copied to each member
)

// ForUnit returns copies of a member's entries for the unit.
func ForUnit(member string, memberNumber int, entries []Entry) (list []Entry) {
	for i := range entries {
		if e := &entries[i]; e.CopiedFrom == "" && (e.Rule == "" || memberNumber <= maxSignalMembers) {
			list = append(list, e.CopyForUnit(member))
		}
	}
	return list
}

// ForMembers returns copies of a unit's own entries for a member, at most the first maxSharedEntries. It leaves out
// entries that were copied from members, and implicit feedback (entries with a Rule).
func ForMembers(unit string, entries []Entry) (list []Entry) {
	for i := range entries {
		if e := &entries[i]; e.CopiedFrom == "" && e.Rule == "" && len(list) < maxSharedEntries {
			list = append(list, e.CopyForMember(unit))
		}
	}
	return list
}

// Missing returns the entries in list that set does not contain, or contains with different content. Missing overwrites
// the elements of list.
func Missing(list, set []Entry) []Entry {
	has := make(map[string]string, len(set))
	for i := range set {
		has[set[i].ID] = set[i].Hash
	}
	return slices.DeleteFunc(list, func(e Entry) bool { return has[e.ID] == e.Hash })
}
