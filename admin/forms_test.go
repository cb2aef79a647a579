package admin_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"precept/admin"
)

func TestCheckboxesFollowQueryAndOnlyOverviewHasTotalRow(t *testing.T) {
	h, err := admin.New(newWordSource("word").options())
	if err != nil {
		t.Fatal(err)
	}
	cookie := serve(h, "/login?token=key", nil).Cookies()[0]
	get := func(target string) string {
		res := serve(h, target, cookie)
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: got status %d, error %v, want no error and status 200", target, res.StatusCode, err)
		}
		return string(page)
	}
	for selected, box := range map[string]string{
		"/?provisional=true": `name="provisional" value="true"`, "/lessons?old=1": `name="old" value="1"`, "/sessions?loops=true": `name="loops" value="true"`,
	} {
		unselected, _, _ := strings.Cut(selected, "?")
		if page := get(selected); !strings.Contains(page, box+" checked>") {
			t.Errorf("%s: the checkbox is missing or not checked", selected)
		}
		if page := get(unselected); !strings.Contains(page, box+">") {
			t.Errorf("%s: the checkbox is missing or checked", unselected)
		}
	}
	for target, wantRows := range map[string]int{"/": 1, "/lessons": 0, "/breakdown": 0} {
		if n := strings.Count(get(target), `<tr class="all">`); n != wantRows {
			t.Errorf("%s: got %d rows for all lessons together, want %d", target, n, wantRows)
		}
	}
}
