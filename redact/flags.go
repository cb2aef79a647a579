package redact

import "bytes"

// shortFlag is a program that takes a password behind a flag of one letter: as a word of its own,
// or attached.
type shortFlag struct {
	program  string
	letter   byte
	apart    bool
	attached bool
}

//nolint:gochecknoglobals // read only
var shortFlags = []shortFlag{
	{"mysql", 'p', false, true}, // mysqldump, mysqladmin: -p with a word behind it asks for the password
	{"mariadb", 'p', false, true},
	{"sshpass", 'p', true, true},
	{"mongo", 'p', true, false},
	{" login", 'p', true, false}, // docker, podman, az, oc
	{"cqlsh", 'p', true, false},
	{"cypher-shell", 'p', true, false},
	{"sqlcmd", 'P', true, true},
	{"zip", 'P', true, false},
	{"7z", 'p', false, true},
	{"ldap", 'w', true, true},
	{"openssl", 'k', true, false},
	{"redis-cli", 'a', true, false},
	{"valkey-cli", 'a', true, false},
}

// passwordFlag matches the password behind a flag of one letter, if its program stands before it in
// the same command, behind a flag whose name tells of it, and what is piped into sudo -S.
func (m *matcher) passwordFlag(i int) hit {
	const farthest = 96
	letter, p := m.s[i+1], i+2
	attached := at(m.s, p) > ' '
	before := m.s[max(m.last, i-farthest):i]
	if letter == 'S' && bytes.HasSuffix(before, []byte("| sudo ")) {
		return m.piped(i - len("| sudo "))
	}
	before = before[bytes.LastIndexAny(before, "\n;|&")+1:]
	for _, f := range shortFlags {
		if f.letter != letter || attached && !f.attached || !attached && !f.apart || !bytes.Contains(before, []byte(f.program)) {
			continue
		}
		return m.value(skipMarks(m.s, p), passwordClass, shape{})
	}
	end := span(m.s[:min(len(m.s), i+widest)], i+1, tokenByte)
	if class := classOfWord(m.s[i+1 : end]); class.isSecret() && at(m.s, end) == ' ' { // -storepass
		return m.value(skipMarks(m.s, end), class, shape{})
	}
	return hit{}
}

// piped matches what echo writes into the pipe at p.
func (m *matcher) piped(p int) hit {
	const farthest = 64
	from := max(m.last, p-farthest)
	echo := bytes.LastIndex(m.s[from:p], []byte("echo "))
	if echo < 0 {
		return hit{}
	}
	return m.value(from+echo+len("echo "), passwordClass, shape{literal: true})
}
