package detect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// canonicalArgs is a call's arguments in a form in which equal calls are equal: keys sorted, white space gone, descriptions
// that the model writes anew each time dropped. words are values that every spelling of these arguments holds literally:
// what does not contain them is another call.
func canonicalArgs(args string) (canon string, words []string) {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}", nil
	}
	dec := json.NewDecoder(strings.NewReader(trimmed))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		flat := strings.Join(strings.Fields(trimmed), " ")
		return flat, longest(nil, flat)
	}
	var b bytes.Buffer
	c := canoniser{out: &b}
	c.value(v, true)
	return b.String(), append(c.numbers, c.words...)
}

type canoniser struct {
	out     *bytes.Buffer
	words   []string
	numbers []string
}

func (c *canoniser) value(v any, top bool) {
	switch x := v.(type) {
	case map[string]any:
		c.object(x, top)
	case []any:
		c.out.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				c.out.WriteByte(',')
			}
			c.value(e, false)
		}
		c.out.WriteByte(']')
	case string:
		s := strings.TrimSpace(x)
		c.words = longest(c.words, s)
		c.quote(s)
	case json.Number:
		c.number(x.String())
	case bool:
		if x {
			c.out.WriteString("true")
		} else {
			c.out.WriteString("false")
		}
	default:
		c.out.WriteString("null")
	}
}

func (c *canoniser) object(x map[string]any, top bool) {
	names := make([]string, 0, len(x))
	for k := range x {
		names = append(names, k)
	}
	slices.Sort(names)
	drop := top && hasWork(x)
	c.out.WriteByte('{')
	n := 0
	for _, k := range names {
		if drop && describes(k) {
			continue
		}
		if n++; n > 1 {
			c.out.WriteByte(',')
		}
		c.quote(k)
		c.out.WriteByte(':')
		c.value(x[k], false)
	}
	c.out.WriteByte('}')
}

// number keeps a number as it is spelled: 1 and 1.0 are different calls, which only means that a loop is seen later.
func (c *canoniser) number(s string) {
	c.out.WriteString(s)
	if n := len(c.numbers); n < 3 && len(s) > 1 {
		c.numbers = append(c.numbers, s)
	}
}

func (c *canoniser) quote(s string) {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		b = []byte(`""`)
	}
	c.out.Write(b)
}

// describes: keys whose value tells people what the call is about. They are dropped only beside a key that does the work:
// the description of an issue that is to be created is the work itself.
func describes(key string) bool {
	switch strings.ToLower(key) {
	case "description", "explanation", "thought", "thoughts", "rationale", "justification", "_description", "toolsummary", "toolaction", "security_risk", "sandbox_permissions", "task_progress", "requires_approval":
		return true
	}
	return false
}

func hasWork(x map[string]any) bool {
	for k := range x {
		switch strings.ToLower(k) {
		case "command", "cmd", "commands", "script", "code", "path", "file_path", "filepath", "absolute_path", "pattern", "query", "url", "prompt", "target_file":
			return true
		}
	}
	return false
}

// longest keeps the three longest runs of plain letters and digits: they stand in every JSON spelling of the text as they
// are, whatever a serialiser escapes.
func longest(have []string, s string) []string {
	start := -1
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (isLetter(s[i]) || isDigit(s[i]) || s[i] == '_' || s[i] == '.' || s[i] == '-') {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 && i-start >= 3 {
			have = keepLongest(have, s[start:i])
		}
		start = -1
	}
	return have
}

func keepLongest(have []string, w string) []string {
	if slices.Contains(have, w) {
		return have
	}
	if len(have) < 3 {
		return append(have, w)
	}
	least := 0
	for i := range have {
		if len(have[i]) < len(have[least]) {
			least = i
		}
	}
	if len(w) > len(have[least]) {
		have[least] = w
	}
	return have
}

// callKey is the identity of a call: its tool and canonical arguments.
func callKey(tool, canon string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(tool)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(canon)
	return d.Sum64()
}

// maxSum bounds how much of a result is compared, at either end.
const maxSum = 32 << 10

// resultSum is a hash over a result without what changes from run to run: colours, chunk ids, wall times, shell and process
// numbers, clock times, durations, addresses, random names.
func resultSum(text string) uint64 {
	if len(text) > 2*maxSum {
		text = text[:maxSum] + text[len(text)-maxSum:]
	}
	var d xxhash.Digest
	d.Reset()
	buf := make([]byte, 0, 256)
	for line := range strings.SplitSeq(text, "\n") {
		t := plain(line)
		if t == "" || strings.HasPrefix(t, "Chunk ID:") || strings.HasPrefix(t, "Wall time:") || strings.HasPrefix(t, "Original token count:") {
			continue
		}
		buf = append(steady(buf[:0], t), '\n')
		_, _ = d.Write(buf)
	}
	return d.Sum64()
}

// steady appends the line with its volatile words replaced by #.
func steady(dst []byte, t string) []byte {
	for i := 0; i < len(t); {
		if !isWordByte(t[i]) {
			dst = append(dst, t[i])
			i++
			continue
		}
		if isUUID(t[i:]) {
			dst = append(dst, '#')
			i += uuidLen
			continue
		}
		j := i
		digits := 0
		for j < len(t) && (isWordByte(t[j]) || isDigit(t[j-min(1, j-i)]) && j+1 < len(t) && isDigit(t[j+1]) && (t[j] == ':' || t[j] == '.')) {
			if isDigit(t[j]) {
				digits++
			}
			j++
		}
		if word := t[i:j]; digits > 0 && volatile(word, digits, t[:i], t[j:]) {
			dst = append(dst, '#')
		} else {
			dst = append(dst, word...)
		}
		i = j
	}
	return dst
}

const uuidLen = 36

// isUUID: s begins with 8-4-4-4-12 hexadecimal digits.
func isUUID(s string) bool {
	if len(s) < uuidLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return hexOnly(s[:8]) && hexOnly(s[9:13]) && hexOnly(s[14:18]) && hexOnly(s[19:23]) && hexOnly(s[24:36])
}

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) }

// volatile says whether a word with digits in it is one of those that change from run to run.
func volatile(w string, digits int, before, after string) bool {
	switch {
	case strings.HasPrefix(w, "0x"):
		return true
	case strings.Count(w, ":") >= 1 && digits >= 4 && strings.Trim(w, "0123456789:.TZ") == "" && (strings.Count(w, ":") >= 2 || digits == len(w)-1 && clockBefore(before)): // 12:31:07.250
		return true
	case digits == len(w) && (len(w) == 10 || len(w) == 13) && w[0] == '1': // seconds or milliseconds since 1970
		return true
	case len(w) >= 7 && digits >= 2 && digits < len(w) && hexOnly(w): // object ids, parts of UUIDs
		return true
	case strings.HasPrefix(w, "tmp") && len(w) >= 8:
		return true
	case durationWord(w):
		return true
	case strings.Trim(w, "0123456789.") == "" && (unitFollows(after) || numberOf(before)):
		return true
	}
	return false
}

func clockBefore(before string) bool {
	return strings.HasSuffix(before, "-") || strings.HasSuffix(before, "T") || strings.HasSuffix(before, "at ")
}

func hexOnly(w string) bool {
	for i := range len(w) {
		c := w[i]
		if !isDigit(c) && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// durationWord: 971ms, 0.12s, 1m30s.
func durationWord(w string) bool {
	rest := strings.TrimRight(w, "hmnsuµ")
	if rest == w || rest == "" || !isDigit(w[0]) {
		return false
	}
	return strings.Trim(w, "0123456789.hms") == "" || strings.Trim(rest, "0123456789.") == "" && (strings.HasSuffix(w, "ms") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "ns"))
}

func unitFollows(after string) bool {
	after = strings.TrimLeft(after, " ")
	for _, u := range []string{"seconds", "second", "secs", "sec", "milliseconds", "ms", "minutes", "minute", "min ", "hours", "hour", "s ago", "days ago", "s)"} {
		if strings.HasPrefix(after, u) {
			return true
		}
	}
	return after == "s"
}

// numberOf: the number of a shell, a process, a session, a thread.
func numberOf(before string) bool {
	low := strings.ToLower(before[max(len(before)-16, 0):])
	for _, w := range []string{"shellid: ", "pid ", "pid: ", "pid=", "pid:", "session id ", "(node:", "process ", "thread ", "job ", "task ", "port "} {
		if strings.HasSuffix(low, w) {
			return true
		}
	}
	return false
}
