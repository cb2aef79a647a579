package redact

import "bytes"

// shortFlag is a program that takes a password behind -p or -a: as a word of its own, or attached.
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
	{"docker login", 'p', true, false},
	{"podman login", 'p', true, false},
	{"redis-cli", 'a', true, false},
	{"valkey-cli", 'a', true, false},
}

// passwordFlag matches the password behind a flag of one letter, if its program stands before it in
// the same command.
func (m *matcher) passwordFlag(i int) hit {
	const farthest = 96
	letter, p := m.s[i+1], i+2
	attached := at(m.s, p) > ' '
	before := m.s[max(m.last, i-farthest):i]
	before = before[bytes.LastIndexAny(before, "\n;|&")+1:]
	for _, f := range shortFlags {
		if f.letter != letter || attached && !f.attached || !attached && !f.apart || !bytes.Contains(before, []byte(f.program)) {
			continue
		}
		for p < len(m.s) && p < i+6 && m.s[p] == ' ' {
			p++
		}
		return m.value(p, passwordClass, false)
	}
	return hit{}
}
