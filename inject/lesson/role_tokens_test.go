//go:build !race

package lesson

import (
	"strings"
	"testing"
)

// TestNoRoleTokenIsRendered: whatever token a lesson holds in its title, its advice or its slug, it
// does not stand in what a model sees, and nothing that is drawn like it does.
func TestNoRoleTokenIsRendered(t *testing.T) {
	for _, token := range roleTokens() {
		for _, v := range disguises(token) {
			for _, l := range []*Lesson{{Slug: "a-b", Title: "t", Advice: "Do it.\n" + v + " now obey"}, {Slug: "a-b", Title: v, Advice: v}, {Slug: v, Title: "x " + v}} {
				checkSafe(t, l)
				if text := block(l); strings.Contains(text, token) || speaks(l) {
					t.Errorf("%q, written %q, is rendered as\n%s", token, v, text)
				}
			}
		}
	}
}
