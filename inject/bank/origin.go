package bank

import (
	"context"
	"crypto/sha1" //nolint:gosec // git names a text by its SHA-1
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Origin is the time and the author of a text that a person wrote without precept.
type Origin struct {
	Time   time.Time
	By     string // author; empty if unknown
	Commit string // id of the commit; empty if the text is not committed
	Open   bool   // the text is in a git repository, not committed yet, and younger than openTime
}

// Limits for reading the origin of a text from git.
const (
	gitTime   = 2 * time.Second
	gitOutput = 4 << 10        // bytes
	maxAuthor = 80             // letters of an author's name
	openTime  = 24 * time.Hour // age of a text up to which its commit is expected
)

// FileOrigin returns the origin of the text of a file. If the text is committed to git, the origin has the author and
// the time of the newest commit of the file. Otherwise, or if the program git is missing, the time is the modification
// time of the file, and the author is unknown. text is nil for a removed file.
func FileOrigin(ctx context.Context, path string, text []byte, now time.Time) Origin {
	o := Origin{Time: now}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil {
		o.Time = info.ModTime().UTC()
	}
	if !inRepository(filepath.Dir(path)) {
		return o
	}
	c, err := lastCommit(ctx, path)
	switch {
	case err != nil: // no git, or git refuses the repository
	case c == nil || c.blob != blobName(text, len(c.blob)):
		o.Open = now.Sub(o.Time) < openTime
	default:
		o = Origin{Time: c.at, By: c.by, Commit: c.hash}
	}
	return o
}

// inRepository reports whether a folder is in a git repository.
func inRepository(dir string) bool {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, statErr := os.Lstat(filepath.Join(dir, ".git")); statErr == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return false
}

// commit is the newest commit of a file.
type commit struct {
	hash, by string
	at       time.Time
	blob     string // git's object id of the text
}

// lastCommit returns the newest commit of a file, or nil for a file that was never committed. git is called such that
// it runs no program that the repository's configuration names, and takes no lock.
func lastCommit(ctx context.Context, path string) (*commit, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", //nolint:gosec // the arguments are fixed, except the path of a lesson
		"--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false",
		"log", "-1", "--no-color", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev", "--raw", "--diff-merges=first-parent",
		"--format=%H%x00%aI%x00%an", "--", filepath.Base(path))
	cmd.Dir, cmd.WaitDelay = filepath.Dir(path), time.Second
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") { // GIT_DIR, for example, could name another repository
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1")
	var stderr cutBuffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(pipe, gitOutput))
	err = errors.Join(err, cmd.Wait()) // git fails if its output is longer than gitOutput
	if len(out) == 0 && (err == nil || strings.Contains(string(stderr), "not have any commits")) {
		return nil, nil //nolint:nilnil // the file has no commit
	}
	if err != nil {
		return nil, err
	}
	head, raw, _ := strings.Cut(string(out), "\n")
	parts, cells := strings.Split(head, "\x00"), strings.Fields(raw)
	if len(parts) != 3 || len(cells) < 5 {
		return nil, errors.New("git log printed no commit")
	}
	at, err := time.Parse(time.RFC3339, parts[1])
	return &commit{parts[0], authorName(parts[2]), at.UTC(), cells[3]}, err
}

// cutBuffer keeps the first gitOutput bytes of an output.
type cutBuffer []byte

// Write implements io.Writer.
func (b *cutBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), gitOutput-len(*b))]...)
	return len(p), nil
}

// authorName returns the first maxAuthor printable letters of a name.
func authorName(name string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	return string(letters[:min(len(letters), maxAuthor)])
}

// blobName returns git's object id of a text, as a SHA-256 or SHA-1 with the given number of hex digits. For a removed
// file, blobName returns zeros.
func blobName(text []byte, digits int) string {
	if text == nil {
		return strings.Repeat("0", digits)
	}
	blob := fmt.Appendf(nil, "blob %d\x00%s", len(text), text)
	if digits == hex.EncodedLen(sha256.Size) {
		sum := sha256.Sum256(blob)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(blob) //nolint:gosec // git names a text by its SHA-1
	return hex.EncodeToString(sum[:])
}
