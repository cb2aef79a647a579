package detect

import "strings"

// pageHead is how much of a page is read for its title and the browser's own error page.
const pageHead = 6 << 10

// errorTitle: the page's title is that of an error page: "<title>404 ...", "screenshot of [404 Not
// Found](...)".
func (p *phrases) errorTitle(head string) bool {
	title, ok := tagged(head, "<title>", "</title>")
	if !ok {
		if title, ok = tagged(head, "screenshot of [", "]("); !ok {
			return false
		}
	}
	low := strings.ToLower(strings.TrimSpace(cutText(title, 120)))
	if len(low) >= 3 && failStatus(low) && len(low) < 60 {
		return true
	}
	return hasPrefixOf(low, []string{"error 4", "error 5"}) || hasWord(low, p.lists["page-title"]...)
}

// pageFails: an error page; on a page, also an error told on a line of its own. A report in prose
// may quote such lines.
func (p *phrases) pageFails(text string, page bool) (string, bool) {
	head := cutText(text, pageHead)
	switch {
	case hasWord(head, "](chrome-error://", "(about:neterror"),
		hasWord(text, "DNS_PROBE_FINISHED", "\nERR_CONNECTION_", "\nERR_NAME_NOT_RESOLVED"):
		return "unreachable", true
	case p.errorTitle(head):
		return "http", true
	}
	n := 0
	for line := range strings.SplitSeq(head, "\n") {
		t := plain(line)
		if t == "" {
			continue
		}
		n++
		low := strings.ToLower(cutText(t, 80))
		switch {
		case n <= 12 && hasPrefixOf(low, p.lists["page-heading"]):
			return "http", true
		case page && (strings.HasPrefix(low, "error. ") || strings.HasPrefix(low, "error: ")):
			if rule, bad := p.statement(strings.TrimLeft(low[6:], " ")); bad {
				return rule, true
			}
		}
	}
	return "", false
}
