package detect

// Verification reads the outcome of a run as Turns does.
func Verification(tool, args, text string) (kind string, passed, ok bool) {
	call := lookAt(tool, args)
	return verification(&call, classify(&call, text, 0), text)
}
