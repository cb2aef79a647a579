package inject

import (
	"strings"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/redact"
)

// maxWarningArgs is the maximum size of the quoted arguments, in bytes.
const maxWarningArgs = 300

// loopWarning returns the warning about a loop. The warning depends only on l, so that all replicas insert identical
// bytes. The quoted call cannot contain a line that begins or ends a block. The arguments are redacted, because the
// block is stored.
func loopWarning(l detect.Loop) string {
	var b strings.Builder
	if l.IsSecondWarning {
		b.WriteString("[LOOP DETECTED] Second notice: ")
		b.WriteString(quotedCall(l))
		b.WriteString(" was repeated after a warning, and the result is still the same.\n" +
			"Do not try another variant of this call. State what the result below proves, list two causes that you have not " +
			"checked, and check one cause with a different call. If you can rule out both causes, stop and report the problem.\n" +
			"[END LOOP DETECTED]\n\n")
		return b.String()
	}
	b.WriteString("[LOOP DETECTED] The call ")
	b.WriteString(quotedCall(l))
	switch l.Rule {
	case "failed-again":
		b.WriteString(" has failed before, and nothing has changed since.\n")
	case "same-answer":
		b.WriteString(" has returned the same result before with other limits, so the limit is not the cause.\n")
	case "same-failure":
		b.WriteString(" failed like the calls before, although the calls differ.\n" +
			"Another variation will fail in the same way. State what the failure below proves and find its cause with a different " +
			"call: read the file, the log or the state that the failure names. If no approach is left, report what blocks you.\n" +
			"[END LOOP DETECTED]\n\n")
		return b.String()
	case "no-change":
		b.WriteString(" had the same result as the calls before, although the calls differ.\n" +
			"A further call of this kind will change nothing. State what the result below shows, then use another tool, or look for the " +
			"state that has to change first. If no approach is left, report what blocks you.\n[END LOOP DETECTED]\n\n")
		return b.String()
	case "at-prompt":
		b.WriteString(" reads the output of a program that waits for an answer.\n" +
			"The program prints nothing more until then. Send the answer, or stop the program and start it again with an option " +
			"that asks no question. If you may not give the answer, report what blocks you.\n[END LOOP DETECTED]\n\n")
		return b.String()
	case "nothing-new":
		b.WriteString(" is the last of several calls whose results were all returned before.\n" +
			"The results since then contain nothing new. List what you know and what is still missing, then make a call that you have " +
			"not made yet. If no approach is left, report what blocks you.\n[END LOOP DETECTED]\n\n")
		return b.String()
	case "edit-undo":
		b.WriteString(" was made before and then undone, so the file alternates between two versions.\n" +
			"Do not undo this edit again without new evidence. State the result of each version, then keep one version, " +
			"or look for the cause elsewhere. If no approach is left, report what blocks you.\n[END LOOP DETECTED]\n\n")
		return b.String()
	default:
		b.WriteString(" has returned the same result before, and nothing has changed since.\n")
	}
	b.WriteString("The same call will return the same result. Do not repeat the call. Find the cause in the result below, then " +
		"change the approach: other arguments, another tool, or a fix of the cause. If no approach is left, report what " +
		"blocks you.\n[END LOOP DETECTED]\n\n")
	return b.String()
}

func quotedCall(l detect.Loop) string {
	const redactedBytes = 16 * maxWarningArgs // arguments can be as long as a file
	args := detect.CanonicalArgs(l.Args)
	args = redact.New(true).Text(args[:min(len(args), redactedBytes)])
	return lesson.SanitizeExcerpt(l.Tool, 80) + " " + lesson.SanitizeExcerpt(args, maxWarningArgs)
}
