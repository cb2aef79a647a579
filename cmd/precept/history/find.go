package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Client is a coding agent that keeps conversations in history files.
type Client struct {
	Name string // value of --from
	// patterns returns glob patterns for the history files.
	patterns func(e Env) []string
	// read returns one file's conversations. skipped is an error that names the unreadable entries, or nil.
	read func(path string) (conversations []Conversation, skipped, err error)
}

// Env describes the machine to search for histories.
type Env struct {
	Home    string                   // the user's home directory
	WorkDir string                   // working directory
	Var     func(name string) string // value of an environment variable, "" if unset
}

// Conversation is one conversation with a client. It has either Messages or Input.
type Conversation struct {
	ID       string
	Messages []json.RawMessage // in the format of the Chat Completions API or the Messages API
	Input    []json.RawMessage // in the format of the Responses API
}

// Clients returns the clients with readable histories.
func Clients() []Client {
	return []Client{
		{"claude-code", claudePatterns, readClaude},
		{"codex", codexPatterns, readCodex},
		{"opencode", opencodePatterns, readOpencode},
		{"qwen", qwenPatterns, readQwen},
		{"cline", clinePatterns, readCline},
		{"aider", aiderPatterns, readAider},
	}
}

// Names returns the values for --from.
func Names() (names []string) {
	for _, c := range Clients() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the client with a name, and the sorted paths of the history files.
func Find(name string, e Env) (Client, []string, error) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, nil, fmt.Errorf("precept cannot read the history of a client named %q; write one of %s", name, strings.Join(Names(), ", "))
	}
	c := all[i]
	var found []string
	patterns := c.patterns(e)
	for _, pattern := range patterns {
		paths, err := glob(pattern)
		if err != nil {
			return c, nil, err
		}
		found = append(found, paths...)
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 {
		shown := strings.Join(patterns[:min(2, len(patterns))], ", ")
		if more := len(patterns) - 2; more > 0 {
			shown += fmt.Sprintf(" and %d other places", more)
		}
		return c, nil, fmt.Errorf("no %s history was found in %s; pass the files as arguments after --from %s", name, shown, name)
	}
	return c, found, nil
}

// glob returns the paths that match a pattern. The component ** matches directories at every depth.
func glob(pattern string) ([]string, error) {
	root, rest, isRecursive := strings.Cut(pattern, string(filepath.Separator)+"**"+string(filepath.Separator))
	if !isRecursive {
		return filepath.Glob(pattern)
	}
	var found []string
	roots, err := filepath.Glob(root)
	for _, root := range roots {
		if target, linkErr := filepath.EvalSymlinks(root); linkErr == nil {
			root = target
		}
		err = errors.Join(err, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrPermission) {
					return nil
				}
				return err
			}
			if ok, _ := filepath.Match(rest, d.Name()); ok && d.Type().IsRegular() {
				found = append(found, path)
			}
			return nil
		}))
	}
	return found, err
}

const maxFile = 512 << 20 // bytes

// Open returns a history file's conversations as JSON lines for detect.ReadTranscripts. skippedErr has one line for
// each unreadable entry.
func (c Client) Open(path string) (r io.Reader, skippedErr, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxFile {
		return nil, nil, fmt.Errorf("the file has %d MiB, but the limit is %d MiB; split the file", info.Size()>>20, maxFile>>20)
	}
	list, skippedErr, err := c.read(path)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	for _, conversation := range list {
		line := map[string]any{"source": c.Name, "id": conversation.ID}
		if conversation.Input != nil {
			line["input"] = conversation.Input
		} else {
			line["messages"] = conversation.Messages
		}
		text, err := json.Marshal(line)
		if err != nil {
			return nil, nil, err
		}
		out.Write(text)
		out.WriteByte('\n')
	}
	return &out, skippedErr, nil
}

// eachLine calls fn with each line of a JSON Lines file. skippedErr names the lines that do not decode.
func eachLine[T any](path string, fn func(T)) (skippedErr, err error) {
	f, err := os.Open(path) //nolint:gosec // the path is an argument of the user or a history file of the chosen client
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	in := bufio.NewReaderSize(f, 64<<10)
	var skippedLines skippedList
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			var v T
			if json.Unmarshal(line, &v) == nil {
				fn(v)
			} else {
				skippedLines.add(fmt.Sprintf("line %d was skipped: the line is not a JSON object, perhaps because it was cut off", n))
			}
		}
		if errors.Is(err, io.EOF) {
			return skippedLines.err(), nil
		}
		if err != nil {
			return skippedLines.err(), err
		}
	}
}

// skippedList describes the first maxListedSkips skipped entries in a file.
type skippedList struct {
	list    []string
	omitted int
}

const maxListedSkips = 10

func (f *skippedList) add(text string) {
	if len(f.list) < maxListedSkips {
		f.list = append(f.list, text)
		return
	}
	f.omitted++
}

func (f *skippedList) err() error {
	if len(f.list) == 0 {
		return nil
	}
	text := strings.Join(f.list, "\n")
	if f.omitted > 0 {
		text += fmt.Sprintf("\n%d more entries were skipped", f.omitted)
	}
	return errors.New(text)
}

func baseName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
}

func message(role string, fields map[string]any) json.RawMessage {
	fields["role"] = role
	text, _ := json.Marshal(fields) // encodes without an error
	return text
}

func call(id, name string, args any) map[string]any {
	text, ok := args.(string)
	if !ok {
		b, _ := json.Marshal(args)
		text = string(b)
	}
	return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": text}}
}

// dataHome returns the parent of opencode's directory.
func (e Env) dataHome() string {
	if dir := e.Var("XDG_DATA_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(e.Home, ".local", "share")
}

// configHome returns the parent of VS Code's directory and of similar editors' directories.
func (e Env) configHome() string {
	switch runtime.GOOS {
	case "darwin":
		return filepath.Join(e.Home, "Library", "Application Support")
	case "windows":
		return e.Var("APPDATA")
	}
	if dir := e.Var("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(e.Home, ".config")
}
