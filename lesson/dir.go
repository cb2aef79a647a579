package lesson

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The bounds of a bank directory: deeper or larger is a mistake (a link to a home directory), not a
// bank.
const (
	maxDirDepth = 6
	maxFiles    = 50_000
)

// under says whether a path lies in one of the folders.
func under(rel string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return strings.HasPrefix(rel, f+"/") })
}

// companions is the folder of the long stories behind lessons. They are for people, and no lessons.
const companions = "knowledge/lessons"

// list finds the lesson files of a directory, by path relative to it. blind names the folders that
// could not be looked into: what was in them stays as it was.
func list(dir string) (found map[string]*entry, blind []string, problems []Problem, err error) {
	found = map[string]*entry{}
	err = walk(dir, "", 0, func(rel string, info fs.FileInfo, err error) error {
		full := filepath.Join(dir, filepath.FromSlash(rel))
		if err != nil {
			blind = append(blind, rel)
			problems = append(problems, unread(full, CodeInternal, err))
			return nil //nolint:nilerr // it is told as a problem; the other folders are read
		}
		if len(found) >= maxFiles {
			return fmt.Errorf("%s: %w", dir, errTooMany)
		}
		found[rel] = &entry{info: info, path: full}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return found, blind, problems, nil
	}
	return found, blind, problems, err
}

var errTooMany = fmt.Errorf("there are more than %d lessons; is it the right directory?", maxFiles)

// walk visits lesson files, following links as a Kubernetes volume needs it. The error it passes to
// visit is of one entry.
func walk(dir, rel string, depth int, visit func(rel string, info fs.FileInfo, err error) error) error {
	items, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(rel)))
	if err != nil {
		return fmt.Errorf("read the lessons directory: %w", err)
	}
	for _, item := range items {
		name := item.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			continue
		}
		sub := name
		if rel != "" {
			sub = rel + "/" + name
		}
		if sub == companions {
			continue
		}
		if !item.IsDir() && item.Type()&fs.ModeSymlink == 0 && !isLessonName(name) {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(sub)))
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or a dangling link in the middle of a swap
			continue
		case err != nil:
			err = visit(sub, nil, err)
		case info.IsDir() && depth < maxDirDepth:
			if err = walk(dir, sub, depth+1, visit); err != nil && !errors.Is(err, errTooMany) {
				err = visit(sub, nil, err)
			}
		case !info.IsDir() && isLessonName(name):
			err = visit(sub, info, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isLessonName says whether a file is meant to be a lesson. A README beside them is not.
func isLessonName(name string) bool {
	return strings.EqualFold(filepath.Ext(name), ".md") && !strings.EqualFold(name, "README.md")
}
