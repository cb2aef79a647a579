package admin

import (
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// diffLimit bounds the lines per text, because the work grows with the product of the two texts' line counts.
const diffLimit = 400

type diffLine struct{ mark, text, kind string }

// diffLines returns a line diff from a to b, based on the longest common subsequence.
func diffLines(a, b string) (out []diffLine) {
	lines := func(text string) []string {
		all := strings.Split(strings.TrimSpace(truncateBytes(text, maxShownText)), "\n")
		return all[:min(len(all), diffLimit)]
	}
	old, current := lines(a), lines(b)
	longest := make([][]int, len(old)+1)
	for i := range longest {
		longest[i] = make([]int, len(current)+1)
	}
	for i, x := range slices.Backward(old) {
		for j, y := range slices.Backward(current) {
			if x == y {
				longest[i][j] = longest[i+1][j+1] + 1
				continue
			}
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
		}
	}
	i, j := 0, 0
	for i < len(old) || j < len(current) {
		switch {
		case i < len(old) && j < len(current) && old[i] == current[j]:
			out = append(out, diffLine{" ", old[i], "kept"})
			i, j = i+1, j+1
		case j == len(current) || i < len(old) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, diffLine{"−", old[i], "cut"})
			i++
		default:
			out = append(out, diffLine{"+", current[j], "added"})
			j++
		}
	}
	return out
}

func diffNode(a, b string) g.Node {
	return h.Pre(h.Class("diff"), g.Map(diffLines(a, b), func(l diffLine) g.Node {
		return h.Span(h.Class(l.kind), g.Text(l.mark+" "), untrustedText(l.text), g.Text("\n"))
	}))
}
