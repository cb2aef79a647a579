package rules

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

// File is a rules file inside a text.
type File struct {
	Name         string // path as the agent wrote it, or the agent's usual name
	Agent        string // agent that writes this marker
	Start, End   int    // offsets of the content
	Unterminated bool   // no marker ends the content, so the user's text may follow it
}

// Base returns the last element in a path with slashes or backslashes.
func Base(name string) string { return path.Base(strings.ReplaceAll(name, `\`, "/")) }

// marker is the frame that an agent writes around a rules file.
type marker struct {
	agent          string
	open           *regexp.Regexp // groups: path; folder (of an AGENTS.md); tag or fence, closed after the content
	closers        []string       // texts that end the content; if none, the next opening or the end of the text
	name           string         // file name if open has no group path
	mustClose      bool           // an opening without a closer is not a marker
	acceptsAnyPath bool           // the frame contains only rules files
	hint           string         // occurs in every text with this frame; much faster to search than open
}

// markers come from the agents' packages and from recorded requests.
var markers = []marker{ //nolint:gochecknoglobals // an immutable list
	{
		agent: "claude-code", acceptsAnyPath: true, hint: "Contents of ",
		open:    regexp.MustCompile(`(?m)^Contents of (?P<path>[^\n]+?\.[A-Za-z]+)(?: \([^\n]*\))?:[ \t]*\r?\n`),
		closers: []string{"\nContents of ", "</system-reminder>", "\n# currentDate", "\n# gitStatus", "\n# userEmail", "\n# directoryStructure", "IMPORTANT: this context may or may not be relevant", "</always_applied_workspace_rules>"},
	},
	{agent: "codex", acceptsAnyPath: true, hint: "# AGENTS.md instructions for ", open: regexp.MustCompile(`# AGENTS\.md instructions for (?P<folder>[^\n]*?)\r?\n\s*<INSTRUCTIONS>`), closers: []string{"</INSTRUCTIONS>"}},
	{agent: "codex", acceptsAnyPath: true, hint: "# AGENTS.md instructions for ", open: regexp.MustCompile(`# AGENTS\.md instructions for (?P<folder>[^\n]*?)\r?\n`), closers: []string{"<INSTRUCTIONS>", "<environment_context>"}},
	{agent: "codex", name: "AGENTS.md", hint: "<user_instructions>", open: regexp.MustCompile(`<user_instructions>`), closers: []string{"</user_instructions>"}},
	{
		agent: "opencode", acceptsAnyPath: true, hint: "Instructions from: ",
		open:    regexp.MustCompile(`(?m)^Instructions from: (?P<path>[^\n]+?)[ \t]*\r?\n`),
		closers: []string{"\nInstructions from: ", "\nSkills provide specialized instructions", "\n<available_skills>", "\n<env>"},
	},
	{
		agent: "gemini", acceptsAnyPath: true, hint: "--- Context from: ", open: regexp.MustCompile(`(?m)^--- Context from: (?P<path>[^\n]+?) ---[ \t]*\r?\n`),
		closers: []string{"\n--- End of Context from: ", "\n--- Context from: ", "</loaded_context>", "</global_context>", "</project_context>", "</extension_context>"},
	},
	{agent: "copilot", name: "copilot-instructions.md", hint: "<custom_instruction", open: regexp.MustCompile(`<custom_instructions?>`), closers: []string{"</custom_instruction"}},
	{agent: "copilot", name: ".instructions.md", hint: "<system_notifications>", open: regexp.MustCompile(`</custom_instruction>\r?\n`), closers: []string{"\n<custom_instruction", "\n<system_notifications>"}, mustClose: true},
	{
		agent: "cline", acceptsAnyPath: true, hint: " provided by ", open: regexp.MustCompile(`(?m)^# (?P<path>\S+)[ \t]*\r?\n\r?\n\(?The following (?:is|are) provided by [^\n]*\r?\n`),
		closers: []string{"\n# .cl", "\n# .cursor", "\n# .windsurf", "\n# AGENTS.md\n", "\n# Preferred Language", "\n====\n"},
	},
	{agent: "cline", acceptsAnyPath: true, hint: "\n# Rules\n## ", open: regexp.MustCompile(`(?m)^# Rules\n## (?P<path>[^\n]+)\n`)},
	{agent: "continue", name: "AGENTS.md", hint: `<context name="userRules">`, open: regexp.MustCompile(`<context name="userRules">`), closers: []string{"\n</context>"}},
	{agent: "aider", hint: "READ ONLY files, provided for your reference", open: regexp.MustCompile("(?m)^(?P<path>[^\\n`<>]{1,200})\\r?\\n(?P<fence>`{3,})\\r?\\n")},
	{agent: "cursor", acceptsAnyPath: true, hint: "_workspace_rule ", open: regexp.MustCompile(`<(?:always_applied|agent_requestable)_workspace_rule (?:name|fullPath)="(?P<path>[^"\n]*)"[^>\n]*>`), closers: []string{"</always_applied_workspace_rule>", "</agent_requestable_workspace_rule>"}},
	{agent: "cursor", name: ".cursorrules", hint: "<user_rule", open: regexp.MustCompile(`<user_rules?(?: [^>\n]*)?>`), closers: []string{"</user_rule"}},
	{agent: "cursor", name: ".cursorrules", hint: "rules", open: regexp.MustCompile(`<(?:cursor_rules_context|cursorrules|custom_rules)(?: [^>\n]*)?>`), closers: []string{"</cursor", "</custom_rules"}},
	{agent: "pi", hint: "Project-specific instructions", open: regexp.MustCompile(`(?m)^#{1,3} (?P<path>\S+)[ \t]*\r?\n`), closers: []string{"\nThe following skills", "\n<available_skills>", "\nCurrent date"}},
	{agent: "", hint: `="`, open: regexp.MustCompile(`<(?P<tag>[A-Za-z_][\w-]*)(?: [^>\n]*?)? (?:path|name|filePath|file|source)="(?P<path>[^"\n]*)"[^>\n]*>`)},
}

// knownNames holds the usual rules file names, in lower case.
var knownNames = []string{ //nolint:gochecknoglobals // an immutable list
	"claude.md", "claude.local.md", "agents.md", "agent.md", "agents.override.md", "gemini.md", "qwen.md", "codex.md", "crush.md", "warp.md",
	"conventions.md", "copilot-instructions.md", "context.md", "rules.md", "opencode.md", "replit.md", "guidelines.md", "instructions.md",
	".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints", ".rules", ".continuerules", ".aider.conventions.md",
}

// IsName reports whether a path is usual for rules files.
func IsName(name string) bool {
	p := strings.ToLower(strings.ReplaceAll(name, `\`, "/"))
	base := path.Base(p)
	return slices.Contains(knownNames, base) || strings.HasSuffix(base, ".mdc") || strings.HasSuffix(base, ".instructions.md") ||
		strings.HasSuffix(base, ".md") && (strings.Contains(p, "rules/") || strings.Contains(p, ".instructions/"))
}

// Find returns the rules files in an agent's text, in order.
func Find(text string) []File {
	var found []File
	for i := range markers {
		found = append(found, markers[i].find(text)...)
	}
	slices.SortStableFunc(found, func(a, b File) int { return cmp.Compare(a.Start, b.Start) })
	// A frame inside a file, for example in a quotation, is part of the file.
	out := found[:0]
	for _, f := range found {
		if len(out) == 0 || f.Start >= out[len(out)-1].End {
			out = append(out, f)
		}
	}
	return out
}

func (m *marker) find(text string) (found []File) {
	if !strings.Contains(text, m.hint) {
		return nil
	}
	openMatches := m.open.FindAllStringSubmatchIndex(text, -1)
	if !m.acceptsAnyPath && m.name == "" {
		openMatches = slices.DeleteFunc(openMatches, func(at []int) bool { return !IsName(strings.TrimSpace(m.group(text, at, "path"))) })
	}
	for n, at := range openMatches {
		f := File{Name: cmp.Or(strings.TrimSpace(m.group(text, at, "path")), m.name), Agent: m.agent, Start: at[1], End: len(text)}
		if folder := strings.TrimSpace(m.group(text, at, "folder")); f.Name == "" {
			f.Name = strings.TrimRight(folder, `/\`) + "/AGENTS.md"
		}
		if n+1 < len(openMatches) {
			f.End = max(openMatches[n+1][0], f.Start)
		}
		closers := m.closers
		if tag := m.group(text, at, "tag"); tag != "" {
			closers = []string{"</" + tag + ">"}
		} else if fence := m.group(text, at, "fence"); fence != "" {
			closers = []string{"\n" + fence}
		}
		closed := false
		for _, c := range closers {
			// A closer can start with the line feed before the content. It can also be the next opening.
			if i := strings.Index(text[f.Start-1:min(f.End+len(c)-1, len(text))], c); i >= 0 {
				f.End, closed = max(f.Start-1+i, f.Start), true
			}
		}
		f.Unterminated = !closed
		if m.mustClose && f.Unterminated {
			continue
		}
		f.trim(text)
		if f.Agent == "copilot" {
			f.takeName(text)
		}
		for _, part := range f.parts(text) {
			if part.Start < part.End {
				found = append(found, part)
			}
		}
	}
	return found
}

// Frames with several files. cline writes no blank line after a file name, so a first-level heading or a known name
// begins a file.
const clineRules = "# Rules\n## "

// The groups come in pairs: the first matches the next file's name, and the second is empty and marks the start of the
// content.
var (
	clineNextFile = regexp.MustCompile(`\n\n## (?:([^\n]+)\n()# |((?:Workspace|Global) AGENTS\.md)\n())`)
	codexNextFile = regexp.MustCompile(`\r?\n--- project-doc ---\r?\n()()`)
)

// parts returns the files in a frame. A codex frame has the user's and the project's file. A cline frame lists files by
// names without folder and extension.
func (f *File) parts(text string) []File {
	files, next := []File{*f}, codexNextFile
	switch {
	case f.Agent == "cline" && strings.HasSuffix(text[:f.Start], clineRules+f.Name+"\n"):
		next = clineNextFile
	case f.Agent != "codex":
		return files
	}
	for _, at := range next.FindAllStringSubmatchIndex(text[f.Start:f.End], -1) {
		name, start := at[2:4], at[4]
		if start < 0 {
			name, start = at[6:8], at[8]
		}
		files[len(files)-1].End = f.Start + at[0]
		files = append(files, File{Name: cmp.Or(text[f.Start+name[0]:f.Start+name[1]], f.Name), Agent: f.Agent, Start: f.Start + start, End: f.End, Unterminated: f.Unterminated})
	}
	if f.Agent == "codex" && len(files) > 1 {
		files[0].Name = "~/.codex/AGENTS.md"
	}
	for i := range files {
		if next == clineNextFile {
			files[i].Name = strings.TrimPrefix(strings.TrimPrefix(files[i].Name, "Workspace "), "Global ")
			if name := files[i].Name; !IsName(name) && path.Ext(name) == "" {
				files[i].Name = ".clinerules/" + name + ".md"
			}
		}
		files[i].trim(text)
	}
	return files
}

// group returns the text for a named group in a match of m.open, or "" if there is no such group.
func (m *marker) group(text string, submatches []int, name string) string {
	i := m.open.SubexpIndex(name)
	if i < 0 || submatches[2*i] < 0 {
		return ""
	}
	return text[submatches[2*i]:submatches[2*i+1]]
}

func (f *File) trim(text string) {
	body := text[f.Start:f.End]
	lead := len(body) - len(strings.TrimLeft(body, " \t\r\n"))
	if i := strings.LastIndexByte(body[:lead], '\n'); i >= 0 {
		f.Start += i + 1
	}
	f.End = f.Start + len(strings.TrimRight(text[f.Start:f.End], " \t\r\n"))
}

// takeName moves the first line to Name if it is a file name.
func (f *File) takeName(text string) {
	first, _, more := strings.Cut(text[f.Start:f.End], "\n")
	if name := strings.TrimSpace(first); more && IsName(name) && !strings.ContainsAny(name, " \t") {
		f.Name = name
		f.Start += len(first) + 1
		f.trim(text)
	}
}
