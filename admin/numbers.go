package admin

import (
	"fmt"
	"strconv"
	"strings"
)

// none stands where there is nothing to show yet.
const none = "–"

// count writes a number of things, in groups of three digits from five digits on.
func count[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	if len(text) < 5 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if left := len(text) - i; i > 0 && left%3 == 0 && text[i-1] != '-' {
			b.WriteRune('\u202f') // a thin space that does not break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// grouped is a figure with its number, if it is one, written as count does.
func grouped(figure string) string {
	n, err := strconv.ParseInt(figure, 10, 64)
	if err != nil {
		return figure
	}
	return count(n)
}

// plural is the word for one thing or for several.
func plural[N int | int64](n N, one, several string) string { return when(n == 1, one, several) }

// things writes a number of things with their name: 1 lesson, 2 lessons.
func things[N int | int64](n N, name string) string {
	return count(n) + " " + plural(n, name, name+"s")
}

// points writes an effect in points of reward: 0.05 is +5.0.
func points(x *float64) string {
	if x == nil {
		return none
	}
	text := strings.Replace(fmt.Sprintf("%+.1f", *x*100), "-", "−", 1)
	if text == "−0.0" {
		return "+0.0"
	}
	return text
}

// interval writes one; without an effect there is none to show.
func interval(effect, lo, hi *float64) string {
	if effect == nil || lo == nil || hi == nil {
		return "not enough data"
	}
	return points(lo) + " to " + points(hi)
}

// tone colours an interval that excludes nothing-at-all.
func tone(lo, hi *float64) string {
	switch {
	case lo != nil && *lo > 0:
		return "good"
	case hi != nil && *hi < 0:
		return "bad"
	default:
		return ""
	}
}

func mean(x *float64) string {
	if x == nil {
		return none
	}
	return strconv.FormatFloat(*x, 'f', 3, 64)
}

// chance writes a probability. Nothing is certain, however it would be rounded.
func chance(p float64) string {
	switch {
	case p < 0.005:
		return "< 1%"
	case p > 0.995:
		return "> 99%"
	}
	return percent(p)
}

func percent(x float64) string { return strconv.FormatFloat(x*100, 'f', 0, 64) + "%" }

// money writes a price of tokens, of which a million are the unit.
func money(millionth float64) string {
	x := millionth / 1e6
	return strconv.FormatFloat(x, 'f', when(x < 1, 4, 2), 64)
}

// signed writes a number of sessions.
func signed(x float64) string {
	text := strconv.FormatFloat(x, 'f', 0, 64)
	switch {
	case x <= -0.5:
		return "−" + text[1:]
	case x >= 0.5:
		return "+" + text
	}
	return "0"
}

// bytesOf writes a size with its unit.
func bytesOf(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	x, i := float64(n), 0
	for x >= 1024 && i < len(units)-1 {
		x, i = x/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}
