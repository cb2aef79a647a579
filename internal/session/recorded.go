package session

import "precept/internal/wire"

// maxUniqueEchoes is the maximum number of keys of UniqueEchoes.
const maxUniqueEchoes = 256

// OpeningHash returns a hash of the first words of the user, as in Thread.FirstWords; 0 means the request does not
// contain the first words.
func OpeningHash(req *wire.Request) uint64 { return firstWordsHash(req) }

// IsUniqueName reports whether a name looks like a random ID, so that two conversations with the name are the same
// conversation.
func IsUniqueName(name string) bool { return looksRandom("s:" + name) }

// UniqueEchoes returns the keys of the random ids in a conversation: ids of calls, of items and of replies. The
// keys do not depend on the credential, so a reader without the credential finds the session of an id.
func UniqueEchoes(tenant string, req *wire.Request) (keys []EchoKey) {
	for i := range req.Len() {
		for _, k := range req.EchoKeys(i) {
			if mayRepeat(k) {
				continue
			}
			if keys = append(keys, EchoKeyOf(tenant, k)); len(keys) == maxUniqueEchoes {
				return keys
			}
		}
	}
	return keys
}
