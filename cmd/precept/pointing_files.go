package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func (p *pointing) tempDir() (string, error) {
	if p.temp != "" {
		return p.temp, nil
	}
	dir, err := os.MkdirTemp("", "precept-run-")
	p.temp = dir
	return dir, err
}

// copyOf makes a folder that looks like another one, but for a file that is left out.
func (p *pointing) copyOf(from, without string) (string, error) {
	dir, err := p.tempDir()
	if err != nil {
		return "", err
	}
	items, err := os.ReadDir(from)
	if err != nil {
		return "", err
	}
	if from, err = filepath.Abs(from); err != nil {
		return "", err
	}
	for _, item := range items {
		if item.Name() == without {
			continue
		}
		if err := os.Symlink(filepath.Join(from, item.Name()), filepath.Join(dir, item.Name())); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// escapePath quotes a key for sjson, whose paths have signs of their own.
func escapePath(key string) string {
	return regexp.MustCompile(`[^\w-]`).ReplaceAllString(key, `\$0`)
}

// withoutComments makes JSON out of JSON with comments and commas at ends, which these agents take.
func withoutComments(text []byte) []byte {
	if json.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, text[i:min(end+1, len(text))]...)
			i = end
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(text) && text[i+1] == '*':
			end := strings.Index(string(text[i+2:]), "*/")
			if end < 0 {
				return text
			}
			i += end + 3
		default:
			out = append(out, c)
		}
	}
	return regexp.MustCompile(`,(\s*[}\]])`).ReplaceAll(out, []byte("$1"))
}
