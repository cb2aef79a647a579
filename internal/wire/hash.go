package wire

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"
)

func hashWords(list []string) uint64 {
	d := xxhash.New()
	for _, s := range list {
		_, _ = d.WriteString(s)
		_, _ = d.Write([]byte{0})
	}
	return d.Sum64()
}

// systemHash returns a hash over the raw system prompt and the leading system items. Escapes are hashed as sent,
// because a client repeats them, and unescaping 30 KB every turn would cost more than the scan.
func (r *Request) systemHash(system span) uint64 {
	d := xxhash.New()
	b := r.Body
	add := func(v span) {
		for _, p := range contentParts(b, v) {
			if p.kind != textPart {
				continue
			}
			// Claude Code's first system block contains a version that changes within a session.
			if raw := p.text.inner().of(b); !bytes.HasPrefix(raw, []byte("x-anthropic-billing-header")) {
				_, _ = d.Write(raw)
				_, _ = d.Write([]byte{0})
			}
		}
	}
	add(system)
	for i := range r.scan.list {
		if r.scan.list[i].role != RoleSystem {
			break
		}
		add(r.content(i))
	}
	return d.Sum64()
}

// Hash returns the canonical content hash for item i, which is the same in all processes. Hash ignores cache_control,
// id, status, refusal, internal_chat_message_metadata_passthrough, keys that start with "__", key order, reminder and
// environment blocks, and precept's blocks. For an assistant message with calls, the hash covers only the calls.
func (r *Request) Hash(i int) uint64 {
	h := r.memo.hashes.at(i, len(r.scan.list))
	if !h.known {
		*h = itemHash{r.hash(i), true}
	}
	return h.sum
}

func (r *Request) hash(i int) uint64 {
	it := r.Item(i)
	d := xxhash.New()
	put := func(tag byte, s string) {
		_, _ = d.Write([]byte{0, tag})
		_, _ = d.WriteString(s)
	}
	for n := range it.Results {
		res := &it.Results[n]
		if res.WithCall && res.Block >= 0 || res.Inferred {
			continue // such a result is in a message that grows, or is only inferred
		}
		put('r', sentID(res.CallID))
		put('t', resultText(res))
	}
	switch it.Role {
	case RoleUser:
		put('u', it.UserText)
		if text := strings.TrimSpace(withoutBlocks(it.Text, nil)); it.UserText == "" && len(it.Results) == 0 && isAgentText(text) {
			put('o', text)
		}
		if n := r.userMediaHash(i); n != 0 {
			_, _ = d.Write(littleEndian(n))
		}
	case RoleTool:
		put('u', "")
	case RoleAssistant, RoleSystem:
		put('0'+byte(it.Role), "")
		r.hashText(it, d, put)
	case RoleOther:
		_, _ = d.Write(littleEndian(hashValue(r.Body, r.itemSpan(i))))
	}
	return d.Sum64()
}

func (r *Request) hashText(it *Item, d *xxhash.Digest, put func(byte, string)) {
	switch {
	case it.IsReference:
		put('i', it.ID)
	case len(it.Calls) > 0 && !it.Calls[0].IsText():
		for _, c := range it.Calls {
			put('c', sentID(c.ID))
			put('n', c.Name)
			put('a', c.Args)
		}
	case it.Text != "":
		put('t', strings.TrimSpace(it.Text))
	default:
		_, _ = d.Write(littleEndian(hashValue(r.Body, r.itemSpan(it.Index))))
	}
}

func (r *Request) userMediaHash(i int) uint64 {
	return hashMedia(r.Body, r.parts(i))
}

// MediaHash returns a hash over item i's content other than text and tool results, or 0 if there is no such content.
func (r *Request) MediaHash(i int) uint64 {
	if r.scan.list[i].role != RoleUser {
		return 0
	}
	return r.userMediaHash(i)
}

func hashMedia(b []byte, parts []part) (sum uint64) {
	for _, p := range parts {
		if p.kind == otherPart {
			sum = sum*31 + hashValue(b, p.span)
		}
	}
	return sum
}

// hashValue returns a hash over the value at v. The hash ignores the member order, and members with a volatile key.
func hashValue(b []byte, v span) uint64 {
	sum, _ := hashAt(b, v.start)
	return sum
}

// hashAt returns the hash and the end of the value at i. A separate search for the end would read the innermost bytes
// once per nesting level.
func hashAt(b []byte, i int) (sum uint64, end int) {
	s := scanner{b: b}
	var value uint64
	switch b[i] {
	case '{':
		i, more := s.firstElement(i, '}', 1)
		for more {
			name, from := s.key(i)
			if key := unescapeBytes(name.of(b)); isVolatileKey(string(key)) {
				i = valueEnd(b, from)
			} else {
				value, i = hashAt(b, from)
				sum += combineHashes(xxhash.Sum64(key), value)
			}
			i, more = s.nextElement(i, '}')
		}
		return combineHashes('{', sum), i
	case '[':
		sum = '['
		i, more := s.firstElement(i, ']', 1)
		for more {
			value, i = hashAt(b, i)
			sum = combineHashes(sum, value)
			i, more = s.nextElement(i, ']')
		}
		return sum, i
	}
	// Strings are hashed with escapes, so a 5 MB image need not be unescaped.
	end = valueEnd(b, i)
	return xxhash.Sum64(b[i:end]), end
}

// isVolatileKey reports whether agents change the key's value when they send an item again.
func isVolatileKey(key string) bool {
	switch key {
	case "cache_control", "id", "status", "refusal", "internal_chat_message_metadata_passthrough":
		return true
	}
	return strings.HasPrefix(key, "__")
}

func combineHashes(a, b uint64) uint64 {
	a ^= b + 0x9e3779b97f4a7c15 + a<<6 + a>>2
	a *= 0xff51afd7ed558ccd
	return a ^ a>>33
}

func littleEndian(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
