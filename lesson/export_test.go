package lesson

// Overlooked names the patterns that match a text in one of the forms in which it is searched
// although none of their words stands there.
func Overlooked(text string) (patterns []string) {
	plain := plainly(visible(stripANSI(text)))
	for _, form := range []string{plain, unaccented(plain), skeleton(visible(stripANSI(text)))} {
		for _, s := range shapes() {
			if s.pattern.MatchString(form) && !s.may(form) {
				patterns = append(patterns, s.pattern.String())
			}
		}
	}
	return patterns
}
