package lesson

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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

// folderOf is the number of the folder that a path lies in, -1 where it lies in none of them.
func folderOf(rel string, folders []string) int {
	return slices.IndexFunc(folders, func(f string) bool { return strings.HasPrefix(rel, f+"/") })
}

// companions is the folder of the long stories behind lessons. They are for people, and no lessons.
const companions = "knowledge/lessons"

// list finds the lesson files of a directory, by path relative to it. blind names the folders that
// could not be looked into, and problems what is wrong with each: what was in them stays as it was.
func list(dir string) (found map[string]*entry, blind []string, problems []Problem, err error) {
	found = map[string]*entry{}
	err = walk(dir, "", nil, func(rel string, info fs.FileInfo, err error) error {
		full := filepath.Join(dir, filepath.FromSlash(rel))
		if err != nil {
			blind = append(blind, rel)
			problems = append(problems, unread(full, CodeInternal, err, false))
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

var errTooDeep = fmt.Errorf("lies more than %d folders deep; move its lessons up", maxDirDepth)

// walk visits lesson files, following links as a Kubernetes volume needs it. above are the folders
// that it is in: a link that leads back to one of them leads to what is read already. The error it
// passes to visit is of one entry.
func walk(dir, rel string, above []fs.FileInfo, visit func(rel string, info fs.FileInfo, err error) error) error {
	full := filepath.Join(dir, filepath.FromSlash(rel))
	items, err := os.ReadDir(full)
	if err != nil {
		return fmt.Errorf("read the lessons directory: %w", err)
	}
	self, err := os.Stat(full)
	if err != nil {
		return fmt.Errorf("read the lessons directory: %w", err)
	}
	above = append(slices.Clip(above), self)
	for _, item := range items {
		name := item.Name()
		sub := path.Join(rel, name)
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || sub == companions {
			continue
		}
		if !item.IsDir() && item.Type()&fs.ModeSymlink == 0 && !isLessonName(name) {
			continue
		}
		info, err := os.Stat(filepath.Join(full, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or a dangling link in the middle of a swap
			continue
		case err != nil:
			err = visit(sub, nil, fmt.Errorf("cannot be looked at; mend or remove it: %w", err))
		case !info.IsDir() && isLessonName(name):
			err = visit(sub, info, nil)
		case !info.IsDir() || slices.ContainsFunc(above, func(up fs.FileInfo) bool { return os.SameFile(up, info) }):
			continue
		case len(above) > maxDirDepth:
			err = visit(sub, nil, errTooDeep)
		default:
			if err = walk(dir, sub, above, visit); err != nil && !errors.Is(err, errTooMany) {
				err = visit(sub, nil, fmt.Errorf("cannot be looked into; check its permissions: %w", errors.Unwrap(err)))
			}
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
