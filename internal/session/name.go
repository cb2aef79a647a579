package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ID is a session's key: the first 16 bytes of SHA-256 over tenant, namespace and name.
type ID [16]byte

// String returns the hex form.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads the hex form.
func ParseID(s string) (ID, bool) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, false
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, false
	}
	return id, true
}

// ParseRequestID returns the session ID at the start of a Precept-Request-Id, so that feedback on a request needs no
// index.
func ParseRequestID(name string) (ID, bool) {
	text, ok := strings.CutPrefix(name, "req_")
	if !ok || len(text) != 2*len(ID{})+16 {
		return ID{}, false
	}
	return ParseID(text[:2*len(ID{})])
}

// MaxName is the maximum name length in bytes. NormalizeName replaces a longer name with a hash.
const MaxName = 256

// Namespace is where a session name comes from, such as a header. Equal names in different namespaces stand for
// different sessions, because agents may use the same numbers in different headers.
type Namespace string

// Namespaces, in the order in which IDsByName lists the IDs. NamespaceSession covers Precept-Session, the path form and
// names made by precept, so a client can continue any session by sending back the Precept-Session response header.
const (
	NamespaceSession             Namespace = "name"
	NamespaceClaude              Namespace = "x-claude-code-session-id"
	NamespaceClaudeAgent         Namespace = "x-claude-code-agent-id"
	NamespaceCodexSession        Namespace = "session-id"
	NamespaceCodexThread         Namespace = "thread-id"
	NamespaceXSession            Namespace = "x-session-id"
	NamespaceSessionUnderscoreID Namespace = "session_id"
	NamespaceAffinity            Namespace = "x-session-affinity"
	NamespaceHelicone            Namespace = "helicone-session-id"
	NamespaceLiteLLM             Namespace = "x-litellm-session-id"
	NamespaceAgent               Namespace = "agent-session-id"
	NamespaceMetadata            Namespace = "metadata.session_id"
	NamespaceUserID              Namespace = "metadata.user_id"
	NamespaceCacheKey            Namespace = "prompt_cache_key"
	NamespaceConversation        Namespace = "conversation"
)

// NamespaceRun is for runs. A run and a session can have the same name.
const NamespaceRun Namespace = "run"

func namespaces() [15]Namespace {
	return [...]Namespace{
		NamespaceSession, NamespaceClaude, NamespaceClaudeAgent, NamespaceCodexSession, NamespaceCodexThread, NamespaceXSession, NamespaceSessionUnderscoreID, NamespaceAffinity,
		NamespaceHelicone, NamespaceLiteLLM, NamespaceAgent, NamespaceMetadata, NamespaceUserID, NamespaceCacheKey, NamespaceConversation,
	}
}

// NamedID returns the ID for a name inside a tenant.
func NamedID(tenant string, namespace Namespace, name string) ID {
	var buf [512]byte
	b := append(buf[:0], "precept session\x00"...)
	// A length precedes each text, so that different inputs never have equal bytes.
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	b = append(b, tenant...)
	b = binary.AppendUvarint(b, uint64(len(namespace)))
	b = append(b, namespace...)
	b = append(b, NormalizeName(name)...)
	sum := sha256.Sum256(b)
	return ID(sum[:16])
}

// RunID returns a run's ID inside a tenant.
func RunID(tenant, name string) ID { return NamedID(tenant, NamespaceRun, name) }

// scopedID returns a named session's ID. The same name, such as "reviewer", stands for a different session in each run.
func (sc Scope) scopedID(namespace Namespace, name string) ID {
	if sc.Run == "" {
		return NamedID(sc.Tenant, namespace, name)
	}
	b := binary.AppendUvarint(nil, uint64(len(sc.Run)))
	b = append(append(b, sc.Run...), NormalizeName(name)...)
	sum := sha256.Sum256(b)
	return NamedID(sc.Tenant, "in a run: "+namespace, hex.EncodeToString(sum[:]))
}

// ParentID returns the ID of the parent session that a sub-agent's claim names.
func (sc Scope) ParentID(c Claim) ID { return sc.scopedID(c.ParentNamespace, c.Parent) }

// IDsByName returns the IDs for a name in all namespaces, because feedback does not name the namespace. A name that is
// an ID in hex form also stands for this ID.
func IDsByName(tenant, name string) []ID {
	all := namespaces()
	ids := make([]ID, 0, len(all)+1)
	for _, s := range all {
		ids = append(ids, NamedID(tenant, s, name))
	}
	if id, ok := ParseID(name); ok {
		ids = append(ids, id)
	}
	return ids
}

// NormalizeName returns the stored form of a name: the trimmed name, or "h_" and a hash if the trimmed name exceeds
// MaxName or does not fit into a header line. It leaves a stored form unchanged.
func NormalizeName(name string) string {
	name = strings.TrimSpace(name)
	if len(name) <= MaxName && fitsHeaderLine(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "h_" + hex.EncodeToString(sum[:16])
}

func fitsHeaderLine(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
