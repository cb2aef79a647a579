package lesson

// SkippedPatterns returns the injection patterns that match text, but that the scan skips because text has none of
// their words.
func SkippedPatterns(text string) (patterns []string) {
	shown := keepVisible(stripANSI(text))
	plain := lowerCompatible(shown)
	forms := map[string]string{"plain": plain, "bare": unaccented(plain), "squeezed": confusableSkeleton(shown)}
	for i := range injectionRules().rules {
		o := &injectionRules().rules[i]
		for _, form := range o.forms {
			if o.pattern.MatchString(forms[form]) && !o.mayContain(forms[form]) {
				patterns = append(patterns, o.pattern.String())
			}
		}
	}
	return patterns
}
