package redact

import (
	"bytes"
	"slices"
	"strings"
)

// shortFlag is a program with a one-letter password flag: -p PASSWORD (allowsSeparate) or -pPASSWORD (allowsAttached).
type shortFlag struct {
	program        string
	letter         byte
	allowsSeparate bool
	allowsAttached bool
}

//nolint:gochecknoglobals // read only
var shortFlags = []shortFlag{
	{"mysql", 'p', false, true}, // also mysqldump and mysqladmin; -p and a space means that the program asks
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
	{"ipmitool", 'P', true, false},
	{"isql", 'P', true, true},
	{"snmp", 'A', true, true},
	{"snmp", 'X', true, true},
	{"openssl passwd", '1', true, false},
	{"openssl passwd", '5', true, false},
	{"openssl passwd", '6', true, false},
}

// passwordReaders are programs that read a password from standard input: from a pipe or after <<<.
//
//nolint:gochecknoglobals // read only
var passwordReaders = []string{"chpasswd", "sudo -S", "docker login", "podman login", "helm registry login", "passwd --stdin", "vncpasswd", "kinit", "cryptsetup", "smbpasswd"}

// passwordFlag matches the password after the flag at i. The flag is a secret's name, or a letter that shortFlags lists
// for a program in the same command.
func (m *matcher) passwordFlag(i int) hit {
	letter, p := m.text[i+1], i+2
	attached := byteAt(m.text, p) > ' '
	if letter == 'U' {
		if command := m.command(i); bytes.Contains(command, []byte("smbclient ")) || bytes.Contains(command, []byte("rpcclient ")) {
			return m.passwordAfter(skipMarks(m.text, p), '%')
		}
		return hit{}
	}
	for _, f := range shortFlags {
		if f.letter != letter || attached && !f.allowsAttached || !attached && !f.allowsSeparate || !bytes.Contains(m.command(i), []byte(f.program)) {
			continue
		}
		if value := skipMarks(m.text, p); isQuote(byteAt(m.text, value)) {
			if h := m.passphraseValue(value+1, minPhrase); h.kind != noKind {
				return h
			}
		}
		return m.value(skipMarks(m.text, p), passwordClass, valueContext{allowDots: true})
	}
	end := classRunEnd(m.text[:min(len(m.text), i+maxBlanks)], i+1, tokenByte)
	if string(m.text[i+1:end]) == "auth" && byteAt(m.text, end) == ' ' { // Jenkins
		return m.userPassword(skipMarks(m.text, end))
	}
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
	before := m.text[max(0, i-maxDistance):i]
	return before[bytes.LastIndexAny(before, "\n;|&")+1:]
}

// inputPassword matches a password on a program's standard input. The | or the last < is at i.
func (m *matcher) inputPassword(i int) hit {
	if m.text[i] == '|' {
		return m.pipedPassword(i)
	}
	return m.hereString(i)
}

// slash matches the password after a user name and the slash at i, or the password after a Windows option.
func (m *matcher) slash(i int) hit {
	if byteAt(m.text, i+1) == ' ' {
		return m.loginPair(i)
	}
	return m.windowsPassword(i)
}

// pipedPassword matches the text that echo pipes into a program in passwordReaders. For chpasswd, a user name precedes
// the password.
func (m *matcher) pipedPassword(i int) hit {
	reader := i + len("| ")
	if startsWith(m.text, reader, "sudo ") && !startsWith(m.text, reader, "sudo -S") {
		reader += len("sudo ")
	}
	if !slices.ContainsFunc(passwordReaders, func(name string) bool { return startsWith(m.text, reader, name) }) {
		return hit{}
	}
	line := m.command(i)
	echo := bytes.LastIndex(line, []byte("echo "))
	p := i - len(line) + echo + len("echo ")
	if startsWith(m.text, p, "-n ") {
		p += len("-n ")
	}
	if echo < 0 || p < m.lastEnd {
		return hit{}
	}
	if startsWith(m.text, reader, "chpasswd") {
		end := p + len(bytes.TrimRight(m.text[p:i], quotesAndBlanks))
		return m.checkValue(p+bytes.IndexByte(m.text[p:end], ':')+1, end, passwordClass, valueContext{literal: true, allowDots: true})
	}
	return m.value(p, passwordClass, valueContext{literal: true, allowDots: true})
}

// hereString matches the text after <<< and a program in passwordReaders. The last < is at i.
func (m *matcher) hereString(i int) hit {
	if !startsWith(m.text, i-len("<<"), "<<<") {
		return hit{}
	}
	command := m.command(i - len("<<"))
	if !slices.ContainsFunc(passwordReaders, func(name string) bool { return bytes.Contains(command, []byte(name)) }) {
		return hit{}
	}
	value := skipMarks(m.text, i+1)
	if bytes.Contains(command, []byte("chpasswd")) {
		value += bytes.IndexByte(m.text[value:runEnd(m.text, value, maxValue, wordByte)], ':') + 1
	}
	return m.value(value, passwordClass, valueContext{literal: true, allowDots: true})
}

// windowsPassword matches the password in a Windows command: schtasks /rp PASSWORD, net use /user:NAME PASSWORD, net
// user NAME PASSWORD /add, xfreerdp /p:PASSWORD. The slash is at i.
func (m *matcher) windowsPassword(i int) hit {
	s, after := m.text, i+1
	has := func(program string) bool { return bytes.Contains(bytes.ToLower(m.command(i)), []byte(program)) }
	switch {
	case startsFold(s, after, "rp ") && has("schtasks"):
		return m.value(skipMarks(s, after+len("rp ")), passwordClass, valueContext{allowDots: true})
	case startsFold(s, after, "p:") && has("freerdp"):
		return m.value(skipMarks(s, after+len("p:")), passwordClass, valueContext{allowDots: true})
	case startsFold(s, after, "user:") && has("net use "):
		if h := m.shareWord(i); h.kind != noKind {
			return h
		}
		name := runEnd(s, after, maxValue, wordByte)
		if byteAt(s, name) == ' ' && byteAt(s, name+1) != '/' {
			return m.value(skipMarks(s, name), passwordClass, valueContext{allowDots: true})
		}
	case (startsFold(s, after, "add") || startsFold(s, after, "active") || startsFold(s, after, "expires") || startsFold(s, after, "domain")) && has("net user "):
		command := bytes.ToLower(m.command(i))
		start := i - len(command) + bytes.Index(command, []byte("net user ")) + len("net user ")
		name := runEnd(s, start, maxValue, wordByte)
		if value := skipMarks(s, name); value < i && value >= m.lastEnd && s[value] != '/' {
			return m.value(value, passwordClass, valueContext{allowDots: true})
		}
	}
	return hit{}
}

// shareWord matches the password between the share and the slash at i: net use Z: \\fs\x PASSWORD /user:NAME. The
// share may have lost its backslashes, because \f is also an escape.
func (m *matcher) shareWord(i int) hit {
	end := i - 1
	start := m.runStart(end, maxValue, wordByte)
	command := bytes.ToLower(m.command(start))
	_, after, ok := bytes.Cut(command, []byte("net use "))
	if !ok { // "net use /user:NAME" has no share
		return hit{}
	}
	words := bytes.Fields(after)
	minWords := 1
	if len(words) > 0 && (words[0][len(words[0])-1] == ':' || words[0][0] == '*') { // a device
		minWords = 2
	}
	if start == end || len(words) < minWords || m.text[start] == '/' || bytes.IndexByte(m.text[start:end], '\\') >= 0 {
		return hit{}
	}
	return m.checkValue(start, end, passwordClass, valueContext{allowDots: true})
}

// accountPassword matches the password in rabbitmqctl add_user NAME PASSWORD, rabbitmqctl change_password NAME PASSWORD
// and wpa_passphrase SSID PASSWORD. The underscore is at i.
func (m *matcher) accountPassword(i int) hit {
	for _, verb := range []string{"add_user ", "change_password ", "wpa_passphrase "} {
		start := i - strings.IndexByte(verb, '_')
		if !startsWith(m.text, start, verb) || verb[0] != 'w' && !bytes.Contains(m.command(i), []byte("rabbitmqctl ")) {
			continue
		}
		name := runEnd(m.text, start+len(verb), maxValue, wordByte)
		if byteAt(m.text, name) != ' ' {
			return hit{}
		}
		return m.value(skipMarks(m.text, name), passwordClass, valueContext{literal: true, allowDots: true})
	}
	return hit{}
}
