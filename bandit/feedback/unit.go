package feedback

import "slices"

// A unit is the subject of randomisation where several sessions belong together: a run, or a named session with its
// sub-agents. It has the assignment and one reward.
//
// An entry of a member is copied to the unit without its text. An entry of the unit is copied to each member when the
// unit is closed, and to closed members when the entry is corrected. Copies may be repeated, because the ids follow
// from the source.

// Limits of the copies, because a unit may have thousands of members.
const (
	maxSignalMembers = 1024 // members whose implicit feedback is copied to the unit; feedback of people is always copied
	maxSharedEntries = 32   // entries of the unit that are copied to each member
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

// ForMembers returns copies of a unit's entries for a member: the first maxSharedEntries.
func ForMembers(unit string, entries []Entry) (list []Entry) {
	for i := range entries {
		if e := &entries[i]; e.CopiedFrom == "" && e.Rule == "" && len(list) < maxSharedEntries {
			list = append(list, e.CopyForMember(unit))
		}
	}
	return list
}

// Missing returns the entries of list that are missing or different in set. The elements of list are overwritten.
func Missing(list, set []Entry) []Entry {
	has := make(map[string]string, len(set))
	for i := range set {
		has[set[i].ID] = set[i].Hash
	}
	return slices.DeleteFunc(list, func(e Entry) bool { return has[e.ID] == e.Hash })
}
