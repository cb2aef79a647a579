package admin_test

import (
	"strings"
	"testing"
)

func TestCheckboxFollowsQuery(t *testing.T) {
	for selected, box := range map[string]string{
		"/?provisional=true": `name="provisional" value="true"`, "/lessons?old=1": `name="old" value="1"`, "/sessions?loops=true": `name="loops" value="true"`,
	} {
		unselected, _, _ := strings.Cut(selected, "?")
		if page := mainText(t, selected, nil); !strings.Contains(page, box+" checked>") {
			t.Errorf("%s: got no checkbox or one that is not checked, want a checked checkbox", selected)
		}
		if page := mainText(t, unselected, nil); !strings.Contains(page, box+">") {
			t.Errorf("%s: got no checkbox or one that is checked, want a checkbox that is not checked", unselected)
		}
	}
}

func TestOnlyOverviewHasRowForAllLessons(t *testing.T) {
	for target, wantRows := range map[string]int{"/": 1, "/lessons": 0, "/breakdown": 0} {
		if n := strings.Count(mainText(t, target, nil), `<tr class="all">`); n != wantRows {
			t.Errorf("%s: got %d rows that sum up all lessons, want %d", target, n, wantRows)
		}
	}
}
