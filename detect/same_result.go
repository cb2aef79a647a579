package detect

import (
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

const maxHashedBytes = 32 << 10 // bytes hashed at each end of a result

// hashResult returns a hash of a result. The hash ignores colours, and parts that change between runs, such as ids,
// times, addresses and random names. If the result is a failure, the hash also ignores the order of the lines, because
// a shell mixes standard output and standard error.
func hashResult(text string, failed bool) uint64 { return compiledPhrases().stableHash(text, failed) }

func (p *phrases) stableHash(text string, failed bool) uint64 {
	if strings.HasPrefix(text, scriptFramePrefix) {
		// A Codex program prints JSON lines, which have ids and times on the same line as the output.
		text = p.unframe(text).body
	}
	if len(text) > 2*maxHashedBytes {
		text = text[:maxHashedBytes] + text[len(text)-maxHashedBytes:]
	}
	var ordered xxhash.Digest
	ordered.Reset()
	unordered := uint64(0)
	buf := make([]byte, 0, 256)
	for line := range strings.SplitSeq(text, "\n") {
		t := p.lineToHash(line)
		if t == "" {
			continue
		}
		if buf = append(p.appendStable(buf[:0], t), '\n'); failed {
			unordered += xxhash.Sum64(buf)
		} else {
			_, _ = ordered.Write(buf)
		}
	}
	if failed {
		return unordered
	}
	return ordered.Sum64()
}

// lineToHash returns a line's plain text, or "" if the line is a frame line that changes between runs.
func (p *phrases) lineToHash(line string) string {
	t := plainLine(line)
	switch {
	case hasAnyPrefix(t, p.lists["frame-varies"]):
		return ""
	case strings.Contains(line, "[7m"): // reverse video marks the selected row
		return "> " + t
	}
	return t
}

// The part of a result that endsHash reads.
const (
	hashedFirst = 2  // lines at the start
	hashedLast  = 4  // lines at the end
	hashedBytes = 96 // per line
)

// endsHash returns a hash of the first and last lines of a result. The hash is 0 (unknown) if the result comes from a
// Codex program or is very long. If two results have equal stableHash values, their endsHash values are equal as well,
// but endsHash is cheaper for long results.
func (p *phrases) endsHash(text string) uint64 {
	if strings.HasPrefix(text, scriptFramePrefix) || len(text) > 2*maxHashedBytes {
		return 0
	}
	var d xxhash.Digest
	d.Reset()
	buf := make([]byte, 0, 256)
	write := func(line string) int {
		t := p.lineToHash(line)
		if t == "" {
			return 0
		}
		buf = p.appendStableUpTo(hashedBytes, buf[:0], t)
		_, _ = d.Write(append(buf[:min(len(buf), hashedBytes)], '\n'))
		return 1
	}
	linesRead := 0
	for line := range strings.SplitSeq(text, "\n") {
		if linesRead += write(line); linesRead == hashedFirst {
			break
		}
	}
	linesRead = 0
	for end := len(text); end >= 0 && linesRead < hashedLast; {
		start := strings.LastIndexByte(text[:end], '\n')
		linesRead += write(text[start+1 : end])
		end = start
	}
	return d.Sum64()
}

// appendStable appends a line to dst, with "#" instead of each word that changes between runs.
func (p *phrases) appendStable(dst []byte, line string) []byte {
	return p.appendStableUpTo(math.MaxInt, dst, line)
}

// appendStableUpTo does the same as appendStable, but stops once dst has limit bytes.
func (p *phrases) appendStableUpTo(limit int, dst []byte, line string) []byte {
	for i := klogHeaderLen(line); i < len(line) && len(dst) < limit; {
		if !isWordByte(line[i]) {
			dst = append(dst, line[i])
			i++
			continue
		}
		if isDigit(line[i]) && isDate(line[i:]) {
			dst = append(dst, '#')
			i = dateEnd(line, i)
			continue
		}
		if isUUID(line[i:]) {
			dst = append(dst, '#')
			i += uuidLen
			continue
		}
		if p.endsWithIDLabel(line[:i]) {
			dst = append(dst, '#')
			for i < len(line) && (isWordByte(line[i]) || line[i] == '_' || line[i] == '-' || line[i] == ':' && i+1 < len(line) && isWordByte(line[i+1])) {
				i++
			}
			continue
		}
		j := i
		digits := 0
		for j < len(line) && (isWordByte(line[j]) || j > i && insideNumber(line, j)) {
			if isDigit(line[j]) {
				digits++
			}
			j++
		}
		if word := line[i:j]; digits > 0 && p.isVolatile(word, digits, line[:i], line[j:]) || isTemporaryName(line[:i], word, digits) {
			dst = append(dst, '#')
		} else {
			dst = append(dst, word...)
		}
		i = j
	}
	return dst
}

// klogHeaderLen returns the length of the date, time and process id that Kubernetes programs print before a message, as
// in "E1130 11:36:16.943998   39553 memcache.go:265] ...", or 0.
func klogHeaderLen(line string) int {
	const dateLen, timeLen = len("E1130 "), len("11:36:16.943998 ")
	if len(line) < dateLen+timeLen || strings.IndexByte("IWEF", line[0]) < 0 || !isNumber(line[1:dateLen-1]) || line[dateLen+2] != ':' || line[dateLen+8] != '.' {
		return 0
	}
	rest := strings.TrimLeft(line[dateLen+timeLen:], " ")
	return len(line) - len(strings.TrimLeft(rest, "0123456789"))
}

// dateEnd returns the end of the date at offset i. In a file name such as 2006-01-02T15_04_05.log, it includes the
// time.
func dateEnd(t string, i int) int {
	i += dateLen
	for i++; i < len(t) && (isDigit(t[i]) || strings.IndexByte("_-:.Z", t[i]) >= 0); i++ {
	}
	return i
}

// isTemporaryName matches the random part of /tmp/tmp.XaRbkQ or /tmp/build-a8f3k2. before is the line's text before the
// word. digits is the number of digits in the word.
func isTemporaryName(before, word string, digits int) bool {
	const minLen, maxLen, minOfEach, maxPath = 6, 24, 2, 256
	if len(word) < minLen || len(word) > maxLen {
		return false
	}
	if strings.HasSuffix(before, "/tmp.") {
		return true
	}
	if digits < minOfEach || len(word)-digits < minOfEach {
		return false
	}
	before = before[max(0, len(before)-maxPath):]
	path := before[strings.LastIndexAny(before, " '\"(=")+1:]
	return strings.Contains(path, "/tmp/") || strings.HasPrefix(path, "/var/folders/")
}

// endsWithIDLabel matches labels such as "trace_id: ".
func (p *phrases) endsWithIDLabel(before string) bool {
	n := len(before)
	for n > 0 && strings.IndexByte(" :=\"'", before[n-1]) >= 0 {
		n--
	}
	name := before[:n]
	if len(name) == len(before) || name == "" || strings.IndexByte("defDEF", name[len(name)-1]) < 0 {
		return false
	}
	return hasAnySuffix(name, p.lists["id-of"])
}

// hasClientPort matches an address with a random client port: 10.0.0.7:50312, or any port before "->".
func hasClientPort(w, after string) bool {
	host, port, ok := strings.Cut(w, ":")
	return ok && strings.Count(host, ".") == 3 && isNumber(port) &&
		(len(port) == 5 && port >= "32768" || strings.HasPrefix(after, "->"))
}

func insideNumber(t string, i int) bool {
	return (t[i] == ':' || t[i] == '.') && isDigit(t[i-1]) && i+1 < len(t) && isDigit(t[i+1])
}

const dateLen = len("2006-01-02")

// isDate reports whether a text begins with a date and a time.
func isDate(s string) bool {
	return len(s) > dateLen+3 && s[4] == '-' && s[7] == '-' && isNumber(s[:4]+s[5:7]+s[8:dateLen]) &&
		(s[dateLen] == ' ' || s[dateLen] == 'T') && isNumber(s[dateLen+1:dateLen+3]) && (s[dateLen+3] == ':' || s[dateLen] == 'T' && strings.IndexByte("_-", s[dateLen+3]) >= 0)
}

const uuidLen = 36

func isUUID(s string) bool {
	if len(s) < uuidLen || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	return isHex(strings.ReplaceAll(s[:uuidLen], "-", ""))
}

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) }

// isVolatile reports whether a word with digits changes between runs. before and after are the line's text around the
// word. digits is the number of digits in the word.
func (p *phrases) isVolatile(w string, digits int, before, after string) bool {
	sets := commonAlphabets(w)
	switch {
	case strings.HasPrefix(w, "0x"), strings.HasPrefix(w, "127.0.0.1:"):
		return true
	case sets&clockBytes != 0 && digits >= 4 && isClock(w, digits, before):
		return true
	case digits == len(w) && (len(w) == 10 || len(w) == 13) && w[0] == '1': // Unix time in seconds or milliseconds
		return true
	case len(w) >= 6 && digits >= 2 && digits < len(w) && sets&hexBytes != 0: // object ids and parts of UUIDs
		return true
	case len(w) == 4 && sets&hexBytes != 0 && strings.HasSuffix(before, "-") && strings.HasPrefix(after, "::"): // BuildKit
		return true
	case strings.HasPrefix(w, "tmp") && len(w) >= 8:
		return true
	case isDuration(w, sets), hasClientPort(w, after):
		return true
	case len(w) >= 8 && digits >= 3 && isRandom(w), len(w) >= 10 && isUpperID(w):
		return true
	case digits == len(w) && isProcessNumber(before, after), digits < len(w) && sets&numberBytes != 0 && isBuildStep(before):
		return true
	case sets&numberBytes != 0 && (p.startsWithUnit(after) || p.endsWithNumberLabel(before)):
		return true
	}
	return false
}

// isRandom reports whether a word looks random: letters and digits alternate at least four times, as in "01JC4X7K9Q".
func isRandom(w string) bool {
	const minChanges = 4
	changes := 0
	for i := 1; i < len(w); i++ {
		if strings.IndexByte(".:", w[i]) >= 0 {
			return false
		}
		if isDigit(w[i]) != isDigit(w[i-1]) {
			changes++
		}
	}
	return changes >= minChanges
}

// isUpperID matches capital letters with a digit between them, as in "DSPY3QUSKLX".
func isUpperID(w string) bool {
	i := strings.IndexAny(w, "0123456789")
	return i > 0 && strings.ContainsAny(w[i:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && strings.Trim(w, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// isProcessNumber matches "nginx[71]: " and "==71==".
func isProcessNumber(before, after string) bool {
	return strings.HasPrefix(after, "]:") && strings.HasSuffix(before, "[") || strings.HasPrefix(after, "==") && strings.HasSuffix(before, "==")
}

// isBuildStep matches docker build's "#7 " before a time.
func isBuildStep(before string) bool {
	return len(before) > 2 && before[0] == '#' && before[len(before)-1] == ' ' && isNumber(before[1:len(before)-1])
}

// isClock matches 12:31:07.250, and 12:31 after a date, "at" or "clock".
func isClock(w string, digits int, before string) bool {
	switch strings.Count(w, ":") {
	case 0:
		return false
	case 1:
		return digits == len(w)-1 && slices.ContainsFunc([]string{"-", "T", "at ", "clock "},
			func(end string) bool { return strings.HasSuffix(before, end) })
	}
	return true
}

type alphabetSet uint8

const (
	numberBytes alphabetSet = 1 << iota // digits and the decimal point
	clockBytes                          // a time such as 12:31:07.250Z
	hexBytes
	durationBytes // a duration such as 1m30s
)

// alphabets holds, for each byte, the alphabets that contain it.
//
//nolint:gochecknoglobals // immutable
var alphabets = func() (out [256]alphabetSet) {
	for set, bytes := range map[alphabetSet]string{
		numberBytes: "0123456789.", clockBytes: "0123456789:.TZ", hexBytes: "0123456789abcdefABCDEF", durationBytes: "0123456789.hms",
	} {
		for i := range len(bytes) {
			out[bytes[i]] |= set
		}
	}
	return out
}()

// commonAlphabets returns the alphabets that contain all bytes in w.
func commonAlphabets(w string) alphabetSet {
	all := ^alphabetSet(0)
	for i := 0; i < len(w) && all != 0; i++ {
		all &= alphabets[w[i]]
	}
	return all
}

func isHex(w string) bool { return commonAlphabets(w)&hexBytes != 0 }

// isDuration matches 971ms, 0.12s and 1m30s. sets is commonAlphabets(w).
func isDuration(w string, sets alphabetSet) bool {
	rest := w
	for rest != "" && strings.IndexByte("hmnsu\xc2\xb5", rest[len(rest)-1]) >= 0 {
		rest = rest[:len(rest)-1]
	}
	if rest == w || rest == "" || !isDigit(w[0]) {
		return false
	}
	return sets&durationBytes != 0 ||
		commonAlphabets(rest)&numberBytes != 0 && hasAny([]string{w[len(w)-2:]}, "ms", "us", "ns")
}

// startsWithUnit matches a unit of time or of transfer rates after a number.
func (p *phrases) startsWithUnit(after string) bool {
	after = strings.TrimLeft(after, " ")
	return startsWithPhrase(after, "s") || hasAnyPrefix(after, p.lists["unit"])
}

// endsWithNumberLabel matches a label before a process, a port, a seed or a duration ("took_ms": 12).
func (p *phrases) endsWithNumberLabel(before string) bool {
	name := strings.TrimRight(before, " :=\"'")
	return name != before && hasAnySuffix(name, p.lists["duration-of"]) || hasAnySuffix(before, p.lists["numbered"])
}
