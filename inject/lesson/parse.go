package lesson

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// MaxFileSize is the maximum size of a lesson file in bytes.
const MaxFileSize = 1 << 20

// Parse parses a LESSON.md in the AIP-11 or gptme form. A gptme lesson gets the slug from path. The error is a
// ValidationErrors with all faults in the file.
func Parse(path string, raw []byte) (*Lesson, error) {
	l, faults := parse(path, string(raw))
	if len(faults) > 0 {
		return nil, faults
	}
	return l, nil
}

// parse parses a file. To save memory, Body and Advice are substrings of raw where possible.
func parse(file, raw string) (*Lesson, ValidationErrors) {
	lineFault := func(line int, format string, args ...any) (*Lesson, ValidationErrors) {
		return nil, ValidationErrors{{Code: CodeInvalid, Line: line, Message: fmt.Sprintf(format, args...)}}
	}
	fileFault := func(format string, args ...any) (*Lesson, ValidationErrors) { return lineFault(0, format, args...) }
	if len(raw) > MaxFileSize {
		return fileFault("the file has %d bytes, more than the %d allowed; move the long part to a companion file", len(raw), MaxFileSize)
	}
	if at := invalidUTF8(raw); at >= 0 {
		return lineFault(lineAt(raw, at), "the file is not valid UTF-8; save it as UTF-8")
	}
	if at := strings.IndexByte(raw, 0); at >= 0 {
		return lineFault(lineAt(raw, at), "the file contains a NUL byte; remove it")
	}
	front, body, ok := splitFrontmatter(raw)
	switch {
	case !ok && strings.HasPrefix(strings.TrimPrefix(raw, "\ufeff"), "---"):
		return lineFault(1, "the frontmatter is not closed; add a line --- after the fields")
	case !ok:
		return fileFault("the file has no frontmatter; begin with a line ---, the fields, and another line --- (`precept lessons new` writes such a file); if the file is not a lesson, rename it to start with _")
	}
	if len(front) > maxFrontmatter {
		return fileFault("the frontmatter has %d bytes, more than the %d allowed; shorten it", len(front), maxFrontmatter)
	}
	front = strings.ReplaceAll(front, "\r\n", "\n")
	if at := strings.IndexByte(front, '\r'); at >= 0 {
		return lineFault(1+lineAt(front, at), "the frontmatter contains a carriage return without a line feed; save the file with Unix or Windows line endings")
	}
	root, faults := readYAML(front)
	gptme := isGptme(&root)
	switch {
	case root.kind == kindMap && !gptme && isUnrelatedFile(&root):
		// This check comes first, because a list of faults does not help the author of a file that is not a lesson.
		return fileFault("the file is not a lesson: it has neither the line schema: %s nor gptme's key match; write a lesson with `precept lessons new`, or rename the file to start with _, so that precept ignores it", schemaID)
	case len(faults) > 0:
		return nil, faults
	case root.kind != kindMap:
		return fileFault("the frontmatter is %s; write key: value lines", root.kind)
	}
	l := &Lesson{Path: file, Body: body, Raw: raw}
	r := &reader{}
	if gptme {
		r.readGptme(l, &root)
	} else {
		r.readAIP11(l, &root)
	}
	if len(r.errs) > 0 {
		return nil, r.errs
	}
	l.computeDerived()
	return l, nil
}

// invalidUTF8 returns the offset of the first invalid byte, or -1.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for offset, r := range text {
		if _, size := utf8.DecodeRuneInString(text[offset:]); r == utf8.RuneError && size == 1 {
			return offset
		}
	}
	return -1
}

// lineAt returns the line number at an offset, from 1.
func lineAt(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// computeDerived computes the content hash, and quarantines a lesson that lacks a necessary approval.
func (l *Lesson) computeDerived() {
	l.ContentHash = l.Hash()
	if l.lacksApproval() || l.State.IsActive() && l.needsReview() {
		l.State = Quarantined
	}
}

// needsReview reports whether the injection scan refuses a text that has no approval. Hand-written files are scanned as
// well, because their text also enters requests.
func (l *Lesson) needsReview() bool {
	if l.Approval.ContentHash == l.ContentHash {
		return false
	}
	return len(scanForInjection(clipBytes(l.Title, maxRaw))) > 0 || len(scanForInjection(clipBytes(l.Advice, maxRaw))) > 0
}

// lacksApproval reports whether the current text needs an approval. An approval for a different text does not count;
// otherwise an author could change a lesson after the approval. A program's lesson always needs an approval.
func (l *Lesson) lacksApproval() bool {
	if l.Approval.ContentHash == "" && l.Approval.Source == "" {
		return false // hand-written
	}
	return l.State.IsActive() && l.Approval.ContentHash != l.ContentHash
}

// splitFrontmatter splits a file at the two --- lines. ok is false if one is missing.
func splitFrontmatter(raw string) (front, body string, ok bool) {
	s := strings.TrimPrefix(raw, "\ufeff")
	first, rest, found := strings.Cut(s, "\n")
	if !found || strings.TrimRight(first, " \t\r") != "---" {
		return "", "", false
	}
	for offset := 0; offset < len(rest); {
		end := strings.IndexByte(rest[offset:], '\n')
		line, next := rest[offset:], len(rest)
		if end >= 0 {
			line, next = rest[offset:offset+end], offset+end+1
		}
		if strings.TrimRight(line, " \t\r") == "---" {
			return rest[:offset], rest[next:], true
		}
		offset = next
	}
	return "", "", false
}

// replaceLatin replaces letters such as ß and ø. unaccented keeps them, because they are not ASCII letters with an
// accent.
func replaceLatin(text string) string {
	return strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i").Replace(text)
}

// Slugify converts a text to a slug. A slug starts with a letter, and consists of lower-case Latin letters without
// accents, digits and hyphens. A longer slug is cut to limit bytes. A text without a Latin letter gives "".
func Slugify(text string, limit int) string {
	var b strings.Builder
	for _, r := range replaceLatin(strings.ToLower(unaccented(text))) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String()[:min(b.Len(), limit)], "-")
}

func slugFromPath(file string) string {
	name := path.Base(strings.ReplaceAll(file, "\\", "/"))
	return Slugify(strings.TrimSuffix(name, path.Ext(name)), maxSlug)
}
