package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"precept/test/harness"
)

const (
	cutSection  = "## Voice of the crew\n\n- Speak \"plainly\" about `paths` & <tags>, as in the café.\n- Be brief.\n\n"
	keptSection = "## Tests of the crew\n\n1. Run the whole suite.\n2. Say which test fails.\n\n"
	rulesText   = "# Crew rules\n\nThe crew builds ships.\n\n" + cutSection + keptSection + "## Layout of the crew\n\nThe hull is in `hull/`.\n"
)

// measureRules runs an agent with a rules file. precept always cuts cutSection and never cuts keptSection, so each
// main request must be the agent's request without cutSection.
func (r *row) measureRules(t *testing.T, a *agent) {
	t.Helper()
	if a.rulesFile == "" {
		r.notApplicable("scan", "kept", "cutout")
		return
	}
	direct := newSandboxedAgent(t, a, harness.NewModel(t, faultScript()))
	direct.writeRulesFile(a.rulesFile)
	direct.runTurns()

	through := newSandboxedAgent(t, a, harness.NewModel(t, faultScript()))
	file := through.writeRulesFile(a.rulesFile)
	lessons, data := t.TempDir(), t.TempDir()
	// The shares 0 and 1 are invalid, so the test uses the nearest values.
	for section, share := range map[string]string{"Voice of the crew": "0.99999", "Tests of the crew": "0.00001"} {
		harness.MustRun(t, "rules", "measure", file, "--section", section, "--share", share, "--data-dir", data, "--lessons", lessons)
	}
	p := harness.Start(t, data, harness.AlwaysInject(through.model, lessons)...)
	through.tap.redirect(t, p.DataURL)
	through.runTurns()

	d, n := requestCounts(direct.requestsByCall()), requestCounts(through.requestsByCall())
	var kept, cut []string
	preamble := "" // last bytes before the rules file in a main request
	kept = append(kept,
		problemUnless(fmt.Sprint(d) == fmt.Sprint(n), "%v main requests directly, %v through precept", d, n),
		problemUnless(fmt.Sprint(direct.exitCodes) == fmt.Sprint(through.exitCodes), "exit codes %v directly, %v through precept: %s", direct.exitCodes, through.exitCodes, through.outputs))
	for i, m := range through.requests() {
		sent := string(through.tap.agentRequest(&m).body)
		want, occurrences := withoutSection(sent, cutSection)
		before, _, _ := strings.Cut(sent, "# Crew rules")
		if preamble == "" && m.IsMain && occurrences > 0 { // a side request can come first
			preamble = before[max(0, len(before)-200):]
		}
		if !m.IsMain || !strings.HasSuffix(before, preamble) { // a side request can also contain the rules file
			want = sent
		} else {
			kept = append(kept, problemUnless(occurrences == 1, "request %d has the section %d times, want once", i, occurrences),
				problemUnless(strings.Contains(m.Raw, "Say which test fails"), "request %d has lost the kept section", i))
		}
		cut = append(cut, problemUnless(m.Raw == want, "request %d differs from the agent's request without the cut section\nsent %s\ngot  %s", i, sent, m.Raw))
	}
	r.set("kept", "", nonEmpty(kept...)...)
	r.set("cutout", "", nonEmpty(cut...)...)
	r.checkScan(t, p, filepath.Base(file))
}

func (s *sandboxedAgent) writeRulesFile(name string) string {
	s.t.Helper()
	file := filepath.Join(s.box.work, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(rulesText), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// withoutSection returns body without the first occurrence of section, and the number of occurrences in all JSON
// encodings that agents use.
func withoutSection(body, section string) (without string, occurrences int) {
	without = body
	for _, encode := range []func(string) string{encodeRaw, encodeHTML, encodeASCII} {
		text := encode(section)
		if n := strings.Count(without, text); n > 0 {
			without, occurrences = strings.Replace(without, text, "", 1), occurrences+n
		}
	}
	return without, occurrences
}

func encodeRaw(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.Trim(strings.TrimSpace(b.String()), `"`)
}

func encodeHTML(s string) string {
	b, _ := json.Marshal(s)
	return strings.Trim(string(b), `"`)
}

func encodeASCII(s string) string { return strings.ReplaceAll(encodeRaw(s), "é", `\u00e9`) }

func (r *row) checkScan(t *testing.T, p *harness.Process, name string) {
	t.Helper()
	type seenFile struct {
		File     string
		Sections []struct{ Section string }
	}
	var got struct{ Files []seenFile }
	var out string
	p.Eventually("the captured session", func() bool {
		out = harness.MustRun(t, "rules", "scan", "--json", "--data-dir", p.Dir)
		return json.Unmarshal([]byte(out), &got) == nil && strings.Contains(out, `"sessions": 1`)
	})
	i := slices.IndexFunc(got.Files, func(f seenFile) bool { return filepath.Base(f.File) == name })
	if i < 0 {
		r.set("scan", "", fmt.Sprintf("got %s, want a file %s", out, name))
		return
	}
	f := got.Files[i]
	var sections []string
	for _, s := range f.Sections {
		sections = append(sections, s.Section)
	}
	all := strings.Join(sections, ", ")
	r.set("scan", "", nonEmpty(problemUnless(all == "Crew rules, intro, Voice of the crew, Speak \"plainly\" about paths & <tags>, as in, Be brief, Tests of the crew, Run the whole suite, Say which test fails, Layout of the crew", "got sections %s", all))...)
}
