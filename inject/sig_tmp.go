package inject

func signature(s string) string { return s }
