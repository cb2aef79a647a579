package redact

// arrowValue matches the new value in password = "old" -> "new" (Terraform plans) and API_TOKEN -> value. The > is at
// i.
func (m *matcher) arrowValue(i int) hit {
	if m.lastEnd == 0 || i-m.lastEnd != len(`" -`) || !isQuote(m.text[m.lastEnd]) || m.text[i-2] != ' ' {
		return m.valueAfterArrow(i-1, i+1)
	}
	return m.value(i+2, passwordClass, valueContext{hasQuotedName: true})
}

func (m *matcher) typesetArrow(i int) hit {
	if !startsWith(m.text, i, "→") && !startsWith(m.text, i, "⇒") && !startsWith(m.text, i, "➜") && !startsWith(m.text, i, "➡") {
		return hit{}
	}
	return m.valueAfterArrow(i, i+len("→"))
}

func (m *matcher) valueAfterArrow(i, p int) hit {
	for i > m.lastEnd && m.text[i-1] == '-' {
		i--
	}
	end := m.runStart(i, maxBlanks, paddingByte)
	start := m.runStart(end, maxName, nameByte)
	if start == end {
		return hit{}
	}
	class := m.classifyAssigned(start, m.text[start:end], false)
	if !class.isSecret() || class == headerClass {
		return hit{}
	}
	return m.value(skipMarks(m.text, p), class, valueContext{allowDots: true})
}
