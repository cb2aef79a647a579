package feedback

import "slices"

// A unit is what is randomised where several sessions belong together: a run, or a named session
// with its sub-agents. Its row has the draws and one reward. What is said of a member counts for
// the unit, and what is said of the unit is said of each member:
//
//   - an entry of a member that its set had room for goes into the unit's set, without its words;
//   - an entry of the unit goes to the members when they close, and to those that have closed when
//     it is corrected.
//
// Both may be repeated at will: the ids follow from what is copied.

// mostSignals is how many of a unit's members let it know what the traffic says of them; of all,
// what people say. mostShared is how much of what is said of a unit all of its members hear, of
// which there may be thousands.
const mostSignals, mostShared = 1024, 32

// ForUnit are a member's own entries as its unit counts them. number is the member's in its unit.
func ForUnit(member string, number int, entries []Entry) (list []Entry) {
	for i := range entries {
		if e := &entries[i]; e.Via == "" && (e.Rule == "" || number <= mostSignals) {
			list = append(list, e.OfMember(member))
		}
	}
	return list
}

// ForMembers are the entries that speak of a unit as a whole, as its members have them: the first
// ones in the order given.
func ForMembers(unit string, entries []Entry) (list []Entry) {
	for i := range entries {
		if e := &entries[i]; e.Via == "" && e.Rule == "" && len(list) < mostShared {
			list = append(list, e.OfUnit(unit))
		}
	}
	return list
}

// Missing are the entries of a list that a set does not have as they are. The list is used up.
func Missing(list, set []Entry) []Entry {
	has := make(map[string]string, len(set))
	for i := range set {
		has[set[i].ID] = set[i].Hash
	}
	return slices.DeleteFunc(list, func(e Entry) bool { return has[e.ID] == e.Hash })
}
