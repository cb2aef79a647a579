package distill

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"precept/internal/file"
)

//go:embed prompts/*.md
var defaultPrompts embed.FS

// Prompts holds the prompts for a judge, one for each question.
type Prompts struct{ Evaluate, Outcome, Success, Failure, Phrases string }

func (p *Prompts) files() map[string]*string {
	return map[string]*string{"evaluate.md": &p.Evaluate, "outcome.md": &p.Outcome, "success.md": &p.Success, "failure.md": &p.Failure, "phrases.md": &p.Phrases}
}

const maxPrompt = 64 << 10 // bytes

// LoadPrompts reads the prompts from a directory. If a file is missing, or if dir is empty, the default prompt is used.
func LoadPrompts(dir string) (Prompts, error) {
	var p Prompts
	for name, prompt := range p.files() {
		text, err := fs.ReadFile(defaultPrompts, "prompts/"+name)
		if err != nil {
			return p, err
		}
		if dir != "" {
			custom, err := file.Read(filepath.Join(dir, name))
			switch {
			case err == nil:
				text = custom
			case !errors.Is(err, fs.ErrNotExist):
				return p, fmt.Errorf("read the prompts: %w", err)
			}
		}
		if len(text) > maxPrompt || strings.TrimSpace(string(text)) == "" {
			return p, fmt.Errorf("%s is empty or has more than %d bytes; write a prompt with 1 to %d bytes", name, maxPrompt, maxPrompt)
		}
		*prompt = string(text)
	}
	if dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return p, fmt.Errorf("the directory %s does not exist; `precept distill --print-prompts %s` creates it, with the default prompts", dir, dir)
		}
	}
	return p, nil
}

// WritePrompts writes the default prompts into a directory for an operator to edit. It does not change existing files.
func WritePrompts(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var p Prompts
	for name := range p.files() {
		text, err := fs.ReadFile(defaultPrompts, "prompts/"+name)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // another user may edit the prompts
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
