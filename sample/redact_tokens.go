package sample

import "slices"

// token matches a vendor's key: a prefix of the given length at start, then at least least bytes of the class. Where the
// text itself ends inside the key (a capture that was cut) half of it is enough.
func (m *matcher) token(start, prefix int, class uint8, least int, k kind) hit {
	if start < m.last || !bounded(m.s, start) {
		return hit{}
	}
	end := span(m.s, start+prefix, class)
	if end == len(m.s) {
		least = max(least/2, min(least, 10))
	}
	if end-start-prefix < least {
		return hit{}
	}
	return hit{start, end, k}
}

// dash handles keys whose prefix ends in a dash, PEM blocks and command-line flags.
func (m *matcher) dash(i int) hit {
	if i == 0 || m.s[i-1] == '-' || !isAlnum(m.s[i-1]) {
		return m.dashes(i)
	}
	s := m.s
	switch s[i-1] {
	case 'k':
		if startsWith(s, i-2, "sk-") {
			return m.skKey(i - 2)
		}
	case 't':
		return m.gitlab(i)
	case 'i':
		if startsWith(s, i-4, "pypi-") {
			if startsWith(s, i+1, "AgE") {
				return m.token(i-4, 5, tokenByte, 16, pypiToken)
			}
			return m.token(i-4, 5, tokenByte, 50, pypiToken)
		}
		if startsWith(s, i-3, "xai-") {
			return m.token(i-3, 4, alnumByte, 32, secret)
		}
	case 'X':
		if startsWith(s, i-6, "GOCSPX-") {
			return m.token(i-6, 7, tokenByte, 20, googleKey)
		}
	case 'x':
		if startsWith(s, i-4, "pplx-") {
			return m.token(i-4, 5, alnumByte, 32, secret)
		}
	case 'p':
		if startsWith(s, i-4, "xapp-") {
			return m.token(i-4, 5, tokenByte, 16, slackToken)
		}
	}
	if startsWith(s, i-4, "xox") {
		return m.token(i-4, 5, tokenByte, 12, slackToken)
	}
	return hit{}
}

func (m *matcher) gitlab(i int) hit {
	switch {
	case startsWith(m.s, i-5, "glpat-"), startsWith(m.s, i-5, "glcbt-"), startsWith(m.s, i-5, "glptt-"):
		return m.token(i-5, 6, tokenByte, 16, gitlabToken)
	case startsWith(m.s, i-4, "gldt-"), startsWith(m.s, i-4, "glrt-"):
		return m.token(i-4, 5, tokenByte, 16, gitlabToken)
	}
	return hit{}
}

// skKey matches sk-ant-... and sk-... . CSS has classes like sk-fading-circle, so a key needs a digit.
func (m *matcher) skKey(start int) hit {
	h := m.token(start, 3, tokenByte, 16, openAIKey)
	if h.kind == none {
		return h
	}
	if startsWith(m.s, start, "sk-ant-") {
		h.kind = anthropicKey
	}
	if slices.ContainsFunc(m.s[h.start:h.end], isDigit) {
		return h
	}
	return hit{}
}

func (m *matcher) underscore(i int) hit {
	if i < 2 {
		return hit{}
	}
	s := m.s
	switch s[i-1] {
	case 'p', 'o', 'u', 's', 'r':
		if startsWith(s, i-3, "gh") {
			return m.token(i-3, 4, alnumByte, 20, githubToken)
		}
	case 't':
		if startsWith(s, i-10, "github_pat_") {
			return m.token(i-10, 11, tokenByte, 20, githubToken)
		}
		if startsWith(s, i-5, "shpat_") {
			return m.token(i-5, 6, alnumByte, 20, secret)
		}
		if startsWith(s, i-8, "dckr_pat_") {
			return m.token(i-8, 9, tokenByte, 20, secret)
		}
		if startsWith(s, i-7, "sk_test_") || startsWith(s, i-7, "rk_test_") {
			return m.token(i-7, 8, alnumByte, 16, stripeKey)
		}
	case 'e':
		if startsWith(s, i-7, "sk_live_") || startsWith(s, i-7, "rk_live_") {
			return m.token(i-7, 8, alnumByte, 16, stripeKey)
		}
	case 'c':
		if startsWith(s, i-5, "whsec_") {
			return m.token(i-5, 6, base64Byte, 20, stripeKey)
		}
	case 'k':
		if startsWith(s, i-3, "gsk_") {
			return m.token(i-3, 4, alnumByte, 32, secret)
		}
	case 'm':
		if startsWith(s, i-3, "npm_") {
			return m.token(i-3, 4, alnumByte, 24, npmToken)
		}
	case 'f':
		if startsWith(s, i-2, "hf_") {
			return m.token(i-2, 3, alnumByte, 20, huggingFaceToken)
		}
	}
	return hit{}
}

// capital handles keys that begin with A or S.
func (m *matcher) capital(i int) hit {
	s := m.s
	switch {
	case startsWith(s, i, "AKIA"), startsWith(s, i, "ASIA"):
		return m.awsID(i)
	case startsWith(s, i, "AIza"):
		return m.token(i, 4, tokenByte, 30, googleKey)
	case startsWith(s, i, "SG."):
		return m.sendgrid(i)
	case startsWith(s, i, "AC"), startsWith(s, i, "SK"):
		return m.twilio(i)
	}
	return hit{}
}

func (m *matcher) awsID(i int) hit {
	const length = 20
	if i < m.last || !bounded(m.s, i) {
		return hit{}
	}
	end := i
	for end < len(m.s) && (isUpper(m.s[end]) || isDigit(m.s[end])) {
		end++
	}
	if n := end - i; (n != length && (end != len(m.s) || n < length*2/3)) || (end < len(m.s) && isAlnum(m.s[end])) {
		return hit{}
	}
	return hit{i, end, awsKey}
}

func (m *matcher) twilio(i int) hit {
	const digits = 32
	h := m.token(i, 2, hexByte, digits, twilioKey)
	if h.kind == none || h.end-h.start > digits+2 || (h.end < len(m.s) && isAlnum(m.s[h.end])) {
		return hit{}
	}
	return h
}

func (m *matcher) sendgrid(i int) hit {
	const half = 16
	h := m.token(i, 3, tokenByte, half, sendgridKey)
	if h.kind == none || h.end == len(m.s) {
		return h
	}
	if m.s[h.end] != '.' {
		return hit{}
	}
	end := span(m.s, h.end+1, tokenByte)
	if end-h.end-1 < half && end != len(m.s) {
		return hit{}
	}
	return hit{h.start, end, sendgridKey}
}

// azureSecret matches an application secret of Entra ID: three bytes, a digit, Q~, then 31 to 34 more.
func (m *matcher) azureSecret(i int) hit {
	start := i - 5
	if start < m.last || m.s[i-1] != 'Q' || !isDigit(m.s[i-2]) || !bounded(m.s, start) {
		return hit{}
	}
	end := i + 1
	for end < len(m.s) && (classOf[m.s[end]]&tokenByte != 0 || m.s[end] == '~' || m.s[end] == '.') {
		end++
	}
	if n := end - i - 1; n < 31 && (end != len(m.s) || n < 12) {
		return hit{}
	}
	return hit{start, end, azureKey}
}
