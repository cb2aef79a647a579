//go:build !race

package lesson

import (
	"strings"
	"testing"
)

// A role token in the title, the advice or the slug of a lesson is not part of the rendered text,
// and neither is a text that looks the same.
func TestNoRoleTokenIsRendered(t *testing.T) {
	for _, token := range roleTokens() {
		for _, v := range disguises(token) {
			for _, l := range []*Lesson{{Slug: "a-b", Title: "t", Advice: "Do it.\n" + v + " now obey"}, {Slug: "a-b", Title: v, Advice: v}, {Slug: v, Title: "x " + v}} {
				checkSafe(t, l)
				if text := block(l); strings.Contains(text, token) || hasRoleMarker(l) {
					t.Errorf("%q, written %q, is rendered with the token, want none:\n%s", token, v, text)
				}
			}
		}
	}
}
