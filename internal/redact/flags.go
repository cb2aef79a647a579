package redact

import "bytes"

// shortFlag is a program with a one-letter password flag: -p PASSWORD (allowsSeparate) or -pPASSWORD (allowsAttached).
type shortFlag struct {
	program        string
	letter         byte
	allowsSeparate bool
	allowsAttached bool
}

//nolint:gochecknoglobals // read only
var shortFlags = []shortFlag{
	{"mysql", 'p', false, true}, // mysqldump, mysqladmin: -p and a separate word asks for the password
	{"mariadb", 'p', false, true},
	{"sshpass", 'p', true, true},
	{"mongo", 'p', true, false},
	{" login", 'p', true, false}, // docker, podman, az, oc
	{"cqlsh", 'p', true, false},
	{"cypher-shell", 'p', true, false},
	{"sqlcmd", 'P', true, true},
	{"zip", 'P', true, true},
	{"rar", 'p', false, true},
	{"psexec", 'p', true, false},
	{"mosquitto_", 'P', true, false},
	{"rdesktop", 'p', true, true},
	{"useradd", 'p', true, false},
	{"ncftp", 'p', true, false},
	{"ssh-keygen", 'N', true, false},
	{"7z", 'p', false, true},
	{"ldap", 'w', true, true},
	{"openssl", 'k', true, false},
	{"openssl", 'K', true, false},
	{"gh secret set", 'b', true, false},
	{"redis-cli", 'a', true, false},
	{"valkey-cli", 'a', true, false},
}

// passwordFlag matches the password after the flag at i. The flag is a secret's name, or a letter that shortFlags lists
// for a program in the same command.
func (m *matcher) passwordFlag(i int) hit {
	letter, p := m.text[i+1], i+2
	attached := byteAt(m.text, p) > ' '
	before := m.command(i)
	for _, f := range shortFlags {
		if f.letter != letter || attached && !f.allowsAttached || !attached && !f.allowsSeparate || !bytes.Contains(before, []byte(f.program)) {
			continue
		}
		return m.value(skipMarks(m.text, p), passwordClass, valueContext{allowDots: true})
	}
	end := classRunEnd(m.text[:min(len(m.text), i+maxBlanks)], i+1, tokenByte)
	if class := classifyWord(m.text[i+1 : end]); class.isSecret() && byteAt(m.text, end) == ' ' { // -storepass
		return m.value(skipMarks(m.text, end), class, valueContext{allowDots: true})
	}
	return hit{}
}

// loginKey matches a random word after login or auth: vault login ..., doctl auth init -t ... The g in login or the u
// in auth is at i.
func (m *matcher) loginKey(i int) hit {
	s := m.text
	p := 0
	switch {
	case startsWith(s, i-len("lo"), "login "):
		p = i + len("gin ")
	case startsWith(s, i-len("a"), "auth "):
		p = i + len("uth ")
	default:
		return hit{}
	}
	if startsWith(s, p, "init ") {
		p += len("init ")
	}
	if byteAt(s, p) == '-' && byteAt(s, p+2) == ' ' {
		p += len("-t ")
	}
	end := runEnd(s, p, maxValue, wordByte)
	if v := s[p:end]; !isRandom(v) || bytes.ContainsAny(v, "=@:/") {
		return hit{}
	}
	return m.checkValue(p, end, secretClass, valueContext{})
}

// secureString matches the password in PowerShell's ConvertTo-SecureString "...".
func (m *matcher) secureString(i int) hit {
	const command = "-SecureString "
	if !startsWith(m.text, i, command) {
		return hit{}
	}
	p := i + len(command)
	if startsWith(m.text, p, "-String ") {
		p += len("-String ")
	}
	return m.value(p, passwordClass, valueContext{})
}

// command returns the text of the shell command before i.
func (m *matcher) command(i int) []byte {
	const maxDistance = 96
	before := m.text[max(m.lastEnd, i-maxDistance):i]
	return before[bytes.LastIndexAny(before, "\n;|&")+1:]
}

// pipedPassword matches the text that echo pipes into a password-reading program. chpasswd reads the user name first.
func (m *matcher) pipedPassword(i int) hit {
	users := startsWith(m.text, i, "| chpasswd") || startsWith(m.text, i, "| sudo chpasswd")
	if !users && !startsWith(m.text, i, "| sudo -S") && !startsWith(m.text, i, "| docker login") && !startsWith(m.text, i, "| podman login") {
		return hit{}
	}
	line := m.command(i)
	echo := bytes.LastIndex(line, []byte("echo "))
	if echo < 0 {
		return hit{}
	}
	p := i - len(line) + echo + len("echo ")
	if users {
		end := p + len(bytes.TrimRight(m.text[p:i], quotesAndBlanks))
		return m.checkValue(p+bytes.IndexByte(m.text[p:end], ':')+1, end, passwordClass, valueContext{literal: true, allowDots: true})
	}
	return m.value(p, passwordClass, valueContext{literal: true, allowDots: true})
}
