package lesson

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Limits for a lesson directory. A larger directory was probably configured by mistake, such as a home directory.
const (
	maxDirDepth = 6      // subfolder levels
	maxFiles    = 50_000 // lesson files
)

// companionFolder is a folder with background texts for people. It holds no lessons.
const companionFolder = "knowledge/lessons"

var (
	errTooManyFiles = fmt.Errorf("the directory has more than %d lessons; check that the path is correct", maxFiles)
	errTooDeep      = fmt.Errorf("is nested more than %d folders deep; move the folder's lessons up", maxDirDepth)
)

// Load reads a lesson directory. Each *.md file is a lesson, and its subfolder is the lesson's category. Names with a
// leading dot or underscore are ignored. A missing directory gives an empty book. Load returns a Problem for each
// faulty file, and an error if the directory is unreadable.
func Load(dir string, secrets ...SecretFinder) (*Book, []Problem, error) {
	return NewWatcher(dir, nil, secrets...).Load()
}

// ReadDir reads the lesson files in a directory without parsing them. The keys in texts are relative paths with
// slashes. version changes whenever the files change. ReadDir returns a Problem for each unreadable or oversized file.
// A missing directory has no texts.
func ReadDir(dir string) (texts map[string][]byte, version string, problems []Problem, err error) {
	texts = map[string][]byte{}
	l, err := listDir(dir, func(l *listing, name string, info fs.FileInfo) {
		raw, err := readFile(l.path(name), info)
		if err != nil {
			l.problems = append(l.problems, l.problem(name, CodeInvalid, err))
			return
		}
		texts[name] = raw
	})
	if err != nil {
		return nil, "", nil, err
	}
	return texts, l.version(), l.problems, nil
}

// DirVersion returns ReadDir's version without reading the files.
func DirVersion(dir string) (string, error) {
	l, err := listDir(dir, func(*listing, string, fs.FileInfo) {})
	if err != nil {
		return "", err
	}
	return l.version(), nil
}

// readFile reads a regular file. It checks info before opening the file, because opening a named pipe would block
// forever.
func readFile(path string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file; replace the entry with a regular file, or rename the entry to start with _")
	}
	if info.Size() > MaxFileSize {
		return nil, fmt.Errorf("has %d bytes, more than the %d allowed; move the long part to a companion file", info.Size(), MaxFileSize)
	}
	f, err := os.Open(path) //nolint:gosec // the operator configured the directory
	if err != nil {
		return nil, fmt.Errorf("cannot be opened; check the permissions: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	raw, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return raw, nil
}

// listing holds the state and the result of a walk through a directory.
type listing struct {
	dir      string
	visit    func(l *listing, name string, info fs.FileInfo) // called for each lesson with the relative path
	files    int
	digest   hash.Hash // over the files' names, sizes, times and modes
	row      []byte    // one file's part in the digest
	problems []Problem // unreadable folders and links
	folders  []string  // folders walked
	roots    []root    // the directory, and symbolic links in it
}

// listDir calls visit for each lesson file. A missing directory has no files.
func listDir(dir string, visit func(*listing, string, fs.FileInfo)) (*listing, error) {
	l := &listing{dir: dir, visit: visit, digest: sha256.New()}
	info, _ := os.Stat(dir) // walk reports the error
	l.roots = []root{{dir, info}}
	if err := l.walk("", nil); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the lessons: %w", err)
	}
	return l, nil
}

func (l *listing) path(name string) string {
	return filepath.Join(l.dir, filepath.FromSlash(name))
}

func (l *listing) problem(name string, code Code, err error) Problem {
	return Problem{Path: l.path(name), Errors: ValidationErrors{{Code: code, Message: err.Error()}}, unreadableName: name}
}

func (l *listing) addUnreadable(name string, err error) {
	p := l.problem(name, CodeInternal, err)
	l.problems = append(l.problems, p)
	hashString(l.digest, p.Error())
}

// addFile adds a lesson file to the digest, and calls visit. The digest includes the inode's change time, because cp -p
// and some network mounts keep an old modification time.
func (l *listing) addFile(name string, info fs.FileInfo) {
	l.files++
	l.row = strconv.AppendQuote(l.row[:0], name)
	for _, n := range [...]int64{info.Size(), info.ModTime().UnixNano(), changeTime(info), int64(info.Mode())} {
		l.row = strconv.AppendInt(append(l.row, ' '), n, 10)
	}
	l.digest.Write(l.row)
	l.visit(l, name, info)
}

func (l *listing) version() string { return hex.EncodeToString(l.digest.Sum(nil)) }

// walk lists a folder with all subfolders. It follows links, because a Kubernetes volume consists of links, but not a
// link to a parent. It returns errTooManyFiles, or an error about the folder itself. All other errors become problems.
func (l *listing) walk(folder string, parents []fs.FileInfo) error {
	items, err := os.ReadDir(l.path(folder))
	if err != nil {
		return err
	}
	self, err := os.Stat(l.path(folder))
	if err != nil {
		return err
	}
	l.folders = append(l.folders, l.path(folder))
	parents = append(slices.Clip(parents), self)
	for _, item := range items {
		name := path.Join(folder, item.Name())
		if isSkipped(item.Name()) || name == companionFolder {
			continue
		}
		if !item.IsDir() && item.Type()&fs.ModeSymlink == 0 && !isLessonName(name) {
			continue
		}
		info, err := os.Stat(l.path(name))
		if item.Type()&fs.ModeSymlink != 0 {
			l.roots = append(l.roots, root{l.path(name), info})
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed since the listing, or a dangling link during a swap
		case err != nil:
			l.addUnreadable(name, fmt.Errorf("cannot be read; repair or remove the file: %w", err))
		case info.IsDir():
			l.walkInto(name, info, parents)
		case isLessonName(name):
			l.addFile(name, info)
		}
		if l.files > maxFiles {
			return errTooManyFiles
		}
	}
	return nil
}

// walkInto walks a subfolder, and records errors as problems.
func (l *listing) walkInto(name string, info fs.FileInfo, parents []fs.FileInfo) {
	switch {
	case slices.ContainsFunc(parents, func(up fs.FileInfo) bool { return os.SameFile(up, info) }):
	case len(parents) > maxDirDepth:
		l.addUnreadable(name, errTooDeep)
	default:
		if err := l.walk(name, parents); err != nil && !errors.Is(err, errTooManyFiles) {
			l.addUnreadable(name, fmt.Errorf("cannot be listed; check the folder's permissions: %w", err))
		}
	}
}

// isSkipped reports whether a name belongs to precept ("_"), or to an editor or git (".").
func isSkipped(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

func isLessonName(name string) bool {
	return strings.EqualFold(path.Ext(name), ".md") && !strings.EqualFold(path.Base(name), "README.md")
}
