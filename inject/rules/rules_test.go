package rules_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"precept/inject/rules"
)

const content = "# Shop\n\nA web shop in Go.\n\n## Testing\n\n- Run `make test` before each commit.\n- Name tests after the behaviour.\n\n## Style\n\nUse tabs."

func Example() {
	prompt := "You are an agent.\nInstructions from: /shop/AGENTS.md\n" + content
	for _, f := range rules.Find(prompt) {
		text := prompt[f.Start:f.End]
		sections := rules.Split(text)
		for _, i := range rules.TopSections(sections) {
			s := sections[i]
			fmt.Printf("%s#%s: %d tokens\n", rules.Base(f.Name), s.Name, rules.Tokens(text[s.Start:s.End]))
		}
	}
	// Output:
	// AGENTS.md#intro: 5 tokens
	// AGENTS.md#Testing: 21 tokens
	// AGENTS.md#Style: 5 tokens
}

// framedPrompts returns a prompt for each agent, with the rules file in the agent's frame. A frame is the text that an
// agent writes before and after a rules file.
func framedPrompts(file string) map[string]string {
	return map[string]string{
		"claude-code": "<system-reminder>\nAs you answer the user's questions, you can use the following context:\n# claudeMd\nCodebase and user instructions are shown below. Be sure to adhere to these instructions.\n\nContents of /shop/CLAUDE.md (project instructions, checked into the codebase):\n\n" + file + "\n\n# currentDate\nToday's date is 2026-11-01.\n\n      IMPORTANT: this context may or may not be relevant to your tasks.\n</system-reminder>\n",
		"codex":       "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\n" + file + "\n</INSTRUCTIONS>",
		"codex old":   "<user_instructions>\n\n" + file + "\n\n</user_instructions>",
		"codex bare":  "# AGENTS.md instructions for /shop\n\n" + file,
		"opencode":    "You are opencode.\n<env>\n  Platform: linux\n</env>\nInstructions from: /shop/AGENTS.md\n" + file + "\nInstructions from: /home/x/.claude/CLAUDE.md\nBe brief.",
		"gemini":      "You are an agent.\n\n---\n\n--- Context from: GEMINI.md ---\n" + file + "\n--- End of Context from: GEMINI.md ---",
		"qwen":        "You are Qwen.\n\n---\n\n--- Context from: ../QWEN.md ---\n" + file + "\n--- End of Context from: ../QWEN.md ---\n\n--- Context from: AGENTS.md ---\nx\n--- End of Context from: AGENTS.md ---",
		"copilot":     "You are Copilot.\n<custom_instruction>\n" + file + "\n</custom_instruction>\nGo on.",
		"cline":       "====\n\nUSER'S CUSTOM INSTRUCTIONS\n\n# .clinerules\n\nThe following is provided by a root-level .clinerules file where the user has specified instructions for this working directory (/shop)\n\n" + file + "\n\n# .clineignore\n\n(The following is provided by a root-level .clineignore file)\n",
		"cursorrules": "# .cursorrules\n\nThe following is provided by a root-level .cursorrules file where the user has specified instructions for this working directory (/shop)\n\n" + file,
		"continue":    "You are an agent.\n\n<context name=\"userRules\">\n" + file + "\n</context>",
		"aider":       "Here are some READ ONLY files, provided for your reference.\nDo not edit these files!\n\nCONVENTIONS.md\n```\n" + file + "\n```\n\nmain.go\n```\npackage main\n```\n",
		"cursor":      "<rules>\n<always_applied_workspace_rule name=\"/shop/.cursor/rules/a.mdc\">" + file + "</always_applied_workspace_rule>\n</rules>",
		"pi":          "You are pi.\n\n# Project Context\n\nProject-specific instructions and guidelines:\n\n## /shop/AGENTS.md\n\n" + file + "\n\n## /home/x/CLAUDE.md\n\nBe brief.\nCurrent date: x",
		"pi tag":      "<project_context>\n\n<project_instructions path=\"/shop/AGENTS.md\">\n" + file + "\n</project_instructions>\n</project_context>",
		"attachment":  "<instructions>\n<attachment filePath=\"/shop/.github/copilot-instructions.md\">\n" + file + "\n</attachment>\n</instructions>",
	}
}

func TestFindReadsEachAgentsFrame(t *testing.T) {
	for _, file := range []string{content, strings.ReplaceAll(content, "\n", "\r\n"), "- Use tabs."} {
		for agent, prompt := range framedPrompts(file) {
			found := rules.Find(prompt)
			if len(found) == 0 {
				t.Errorf("%s: Find found no rules file", agent)
				continue
			}
			if got := prompt[found[0].Start:found[0].End]; got != file {
				t.Errorf("%s: content = %q, want %q", agent, got, file)
			}
			if !rules.IsName(found[0].Name) {
				t.Errorf("%s: name = %q, want a rules file name", agent, found[0].Name)
			}
		}
	}
}

// A user message after a frame can contain a section. Therefore, LocateFramed finds no section in a frame without a
// known end.
func TestLocateFramedIgnoresUserMessageAfterFrame(t *testing.T) {
	const section = "## Style\n\nUse tabs."
	const other = "# Shop\n\nA web shop in Go.\n\n## Other\n\nNothing."
	lines := rules.Lines(section)
	for _, text := range []string{"\n\n" + section, "\nImprove this file:\n" + section + "\n\n# End\n", "\n" + section + "\n\n" + section} {
		for agent, prompt := range framedPrompts(other) {
			if at := rules.LocateFramed(prompt+text, lines); len(at) > 0 {
				t.Errorf("%s: section found in the user message %q at %v", agent, text, at)
			}
			before, _, _ := strings.Cut(prompt, other)
			if at := rules.LocateFramed(before+other+text, lines); len(at) > 0 {
				t.Errorf("%s: section found in the user message %q after a frame without an end at %v", agent, text, at)
			}
		}
		for agent, prompt := range framedPrompts(content) {
			before, after, _ := strings.Cut(prompt, content)
			if at := rules.LocateFramed(before+content+text, lines); len(at) > 0 {
				t.Errorf("%s: section found in a frame without an end at %v", agent, at)
			}
			end := len(before) + len(content)
			want := []rules.Span{{Start: end - len(section), End: end}}
			if agent == "codex bare" || agent == "cursorrules" || agent == "pi" { // frames without an end
				want = nil
			}
			if at := rules.LocateFramed(prompt+text, lines); !slices.Equal(at, want) {
				t.Errorf("%s: section before %q: LocateFramed = %v, want %v", agent, after, at, want)
			}
		}
	}
}

// readCaptured returns a recorded request from an agent, cut to the part with the rules files. The agent had several
// rules files in the home folder and in the project.
func readCaptured(t *testing.T, agent string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "frames", agent+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFindReadsFilesInCapturedRequests(t *testing.T) {
	for agent, want := range map[string][]string{
		"claude":   {"/home/x/.claude/CLAUDE.md", "/shop/CLAUDE.md", "/shop/docs/more.md", "/shop/.claude/rules/style.md", "/shop/CLAUDE.local.md"},
		"cline":    {".clinerules/home.md", ".clinerules/home2.md", ".clinerules/one.md", ".clinerules/two.md", "AGENTS.md"},
		"codex":    {"~/.codex/AGENTS.md", "/shop/AGENTS.md"},
		"continue": {"AGENTS.md"}, // Continue joins all files, and omits their names
		"copilot":  {"copilot-instructions.md", "copilot-instructions.md", "copilot-instructions.md", "copilot-instructions.md", "copilot-instructions.md", ".instructions.md"},
		"opencode": {"/home/x/.config/opencode/AGENTS.md", "/shop/AGENTS.md"},
		"pi":       {"/home/x/.pi/agent/AGENTS.md", "/shop/AGENTS.md"},
		"qwen":     {"../home/.qwen/QWEN.md", "QWEN.md", "AGENTS.md", "../home/.qwen/output-language.md"},
	} {
		text := readCaptured(t, agent)
		var names []string
		for _, f := range rules.Find(text) {
			names = append(names, f.Name)
			content := text[f.Start:f.End]
			if strings.HasSuffix(f.Name, "output-language.md") || agent == "continue" || f.Name == ".instructions.md" {
				continue
			}
			title, _, _ := strings.Cut(strings.TrimPrefix(content, "# Rules of "), "\n")
			begin, end := "# Rules of "+title+"\n\nA shop.\n\n## Part\n\nText of "+title, "\n\nSee @docs/more.md"
			if head, _, _ := strings.Cut(content, end); head != begin {
				t.Errorf("%s: %s content = %q, want %q", agent, f.Name, content, begin)
			}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: file names = %q, want %q", agent, names, want)
		}
	}
}

func TestFindIgnoresTextOutsideFrames(t *testing.T) {
	for _, text := range []string{
		"", "Read CLAUDE.md first.", "Contents of the box are:\nx", "<file path=\"main.go\">package main</file>",
		"main.go\n```\npackage main\n```\n", "I have *added these files to the chat* so you can go ahead and edit them.\n\nCONVENTIONS.md\n```\n# A\n```\n", "# AGENTS.md\n\nx", "# Rules\n\n## One\nx", "</custom_instruction>\nGo on.", "<custom_instruction></custom_instruction>",
	} {
		if found := rules.Find(text); len(found) > 0 {
			t.Errorf("%q: found %+v, want none", text, found)
		}
	}
}

// sectionNames returns the section names, with one > for each enclosing section.
func sectionNames(file string) (out []string) {
	sections := rules.Split(file)
	for i := range sections {
		depth := ""
		for p := sections[i].Parent; p >= 0; p = sections[p].Parent {
			depth += ">"
		}
		out = append(out, depth+sections[i].Name)
	}
	return out
}

func TestSplitFindsHeadingsAndBullets(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"headings with bullets and subheadings", content, "Shop|>intro|>Testing|>>Run make test before each commit|>>Name tests after the behaviour|>Style"},
		{"only bullets", "- Use tabs.\n  - In Go.\n* Run it.\n\nText.\n1. First.\n", "Use tabs|Run it|First"},
		{"text before the headings", "Be brief.\n\n# A\nx", "intro|A"},
		{"underlined headings", "Title\n=====\n\nPart\n----\nx\n\n---\n\ny", "Title|>Part"},
		{"headings and bullets in code", "# A\n```sh\n# no\n- no\n```\n~~~\n# no\n~~~\n# B\nx", "A|B"},
		{"frontmatter", "---\ndescription: x\n- no\n---\n# A\nx", "intro|A"},
		{"equal names", "# A\nx\n# A\ny", "A|A (2)"},
		{"name with a repeated name's suffix", "# A\nx\n# A (2)\ny\n# A\nz", "A|A (2)|A (3)"},
		{"CRLF", "# A\r\n\r\nx\r\n# B ##\r\ny\r\n", "A|B"},
		{"skipped levels", "### A\nx\n# B\n### C\ny\n## D\nz", "A|B|>C|>D"},
		{"blank file", " \n\n", ""},
		{"hash without a space", "#tag\nx", "intro"},
	} {
		if got := strings.Join(sectionNames(tc.file), "|"); got != tc.want {
			t.Errorf("%s: sections = %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestSplitMarksEmptyWholeAndRepeatedSections(t *testing.T) {
	sections := rules.Split("# Shop\n## Empty\n\n## Same\n- x\n## Other\n- x\n")
	got := map[string]string{}
	for i := range sections {
		s := &sections[i]
		got[s.Name] = fmt.Sprint(s.Empty, s.WholeFile, s.Repeated)
	}
	want := map[string]string{"Shop": "false true false", "Empty": "true false false", "Same": "false false false", "x": "false false true", "Other": "false false false", "x (2)": "false false true"}
	for name, w := range want {
		if got[name] != w {
			t.Errorf("%s: Empty, WholeFile, Repeated = %s, want %s", name, got[name], w)
		}
	}
}

func TestSingleSectionIsWholeFile(t *testing.T) {
	for file, want := range map[string]bool{
		"# One\n\n- only bullet\n": true, "# One\n\n## Two\n\nText.\n": true, "One\n===\n\nText.": true, "Text.": true,
		"# One\n\n- a\n- b\n": false, "# One\n\nText.\n\n## Two\n\nText.\n": false,
	} {
		sections := rules.Split(file)
		for _, i := range rules.TopSections(sections) {
			if s := &sections[i]; s.WholeFile != want {
				t.Errorf("%q: section %s: WholeFile = %t, want %t", file, s.Name, s.WholeFile, want)
			}
		}
	}
}

func TestHashIgnoresLineEndingsAndTrailingBlanks(t *testing.T) {
	one := rules.Hash("## A\n\n- x\n- y")
	for _, same := range []string{"## A\r\n\r\n- x\r\n- y\r\n", "\n## A  \n\n\n- x\t\n- y\n\n"} {
		if rules.Hash(same) != one {
			t.Errorf("Hash(%q) differs from the original section's hash, want the same hash", same)
		}
	}
	for _, other := range []string{"## A\n- x\n- y", "## A\n\n- x\n- y.", "## A\n\n - x\n- y"} {
		if rules.Hash(other) == one {
			t.Errorf("Hash(%q) equals the original section's hash, want another hash", other)
		}
	}
}

func TestLocateFindsWholeLines(t *testing.T) {
	lines := rules.Lines("- Use tabs.\n\n  Always.")
	for _, tc := range []struct {
		text       string
		boundaries []int // offsets where another part of the message begins
		want       []string
	}{
		{"- Use tabs.\n\n  Always.", nil, []string{"- Use tabs.\n\n  Always."}},
		{"a\n- Use tabs. \r\n\r\n  Always.\r\n\r\n- b", nil, []string{"- Use tabs. \r\n\r\n  Always.\r\n\r\n"}},
		{"- Use tabs.\n\n  Always.\n- Use tabs.\n\n  Always.", nil, []string{"- Use tabs.\n\n  Always.\n", "- Use tabs.\n\n  Always."}},
		{"- Use tabs.\n  Always.", nil, nil},
		{"- Use tabs.\n\n  Always. And never.", nil, nil},
		{"x - Use tabs.\n\n  Always.", nil, nil},
		{"<r>- Use tabs.\n\n  Always.</r>", nil, []string{"- Use tabs.\n\n  Always."}},
		{"- Use tabs.  Always.", []int{11}, []string{"- Use tabs.  Always."}},
		{"- Use ta" + "bs.\n\n  Always.\n", []int{8}, []string{"- Use tabs.\n\n  Always.\n"}},
		{"x- Use tabs.\n\n  Always.y", []int{1, 23}, []string{"- Use tabs.\n\n  Always."}},
	} {
		var got []string
		for _, s := range rules.Locate(tc.text, lines, tc.boundaries...) {
			got = append(got, tc.text[s.Start:s.End])
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q with boundaries %v: texts at the places = %q, want %q", tc.text, tc.boundaries, got, tc.want)
		}
	}
}

// Locate returns several places for a text that occurs in several sections.
func TestLocateFindsSectionsInRandomFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"# A", "## B", "### C", "- a", "* b", "1. c", "text", "  more", "", "", "```", "é 𝄞", "==="}
	for range 3000 {
		var b strings.Builder
		ending := []string{"\n", "\r\n"}[random.IntN(2)]
		for range 1 + random.IntN(14) {
			b.WriteString(pieces[random.IntN(len(pieces))] + ending)
		}
		file := strings.TrimSpace(b.String())
		sections := rules.Split(file)
		for i := range sections {
			s := &sections[i]
			if s.Parent >= i || s.Parent >= 0 && (s.Start < sections[s.Parent].Start || s.End > sections[s.Parent].End) {
				t.Fatalf("%q: section %d's parent is not an earlier section that contains it", file, i)
			}
			places := rules.Locate(file, rules.Lines(file[s.Start:s.End]))
			if len(places) < 2 && !slices.ContainsFunc(places, func(p rules.Span) bool { return p.Start == s.Start && p.End >= s.End }) {
				t.Fatalf("%q: Locate(section %q) = %v, want the section's position among the places", file, file[s.Start:s.End], places)
			}
		}
	}
}

// FindProhibition searches for words that forbid something, or that are about secrets, production or deletion.
func TestFindProhibitionReturnsFirstMatchingWord(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"Never push to main.", "never"},
		{"You MUST NOT edit it.", "must not"},
		{"Don't log secrets.", "don't"},
		{"Keep the API keys in the vault.", "api keys"},
		{"Deploys to production need a review.", "production"},
		{"Ask before deleting a table.", "deleting"},
		{"rm -rf is off-limits", "rm -rf"},
		{"不要提交", "不要"},
		{"Use tabs.", ""},
		{"Run the tests before each commit.", ""},
		{"Reproduction steps help.", ""},
		{"Nevertheless, be brief.", ""},
	} {
		if got := rules.FindProhibition(tc.text); got != tc.want {
			t.Errorf("FindProhibition(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestAddEmptiedHeadingsHandlesManyBullets(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "- Rule %d.\n", i)
	}
	text := "Contents of /shop/CLAUDE.md:\n## Style\n\nUse tabs.\n\n## Rules\n" + b.String()
	at := strings.Index(text, "Use tabs.")
	cuts := rules.AddEmptiedHeadings(text, []rules.Span{{Start: at, End: at + len("Use tabs.\n\n")}})
	if heading := (rules.Span{Start: strings.Index(text, "## Style"), End: strings.Index(text, "## Rules")}); !slices.Contains(cuts, heading) {
		t.Errorf("cuts = %v, want the heading %v among them", cuts, heading)
	}
}

func TestLeavesEmptyPartFindsPartsWithoutContent(t *testing.T) {
	for _, tc := range []struct {
		text       string
		boundaries []int // offsets of the parts after the first
		cut        rules.Span
		want       bool
	}{
		{"- a\n- b", nil, rules.Span{Start: 0, End: 4}, false},
		{"- a\n \n", nil, rules.Span{Start: 0, End: 4}, true},
		{"- a\n- b", []int{4}, rules.Span{Start: 4, End: 7}, true},
		{" - a\n- b", []int{1}, rules.Span{Start: 5, End: 8}, false},
		{"", nil, rules.Span{}, false},
	} {
		if got := rules.LeavesEmptyPart(tc.text, tc.boundaries, []rules.Span{tc.cut}); got != tc.want {
			t.Errorf("%q with boundaries %v and cut %v: LeavesEmptyPart = %t, want %t", tc.text, tc.boundaries, tc.cut, got, tc.want)
		}
	}
}
