package bank

import (
	"context"
	"crypto/sha1" //nolint:gosec // git computes the id of a text with SHA-1
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

// Origin says when, and by whom, a text was written without precept.
type Origin struct {
	Time         time.Time
	By           string // empty if unknown
	Commit       string // empty if not committed
	AwaitsCommit bool   // the text is uncommitted in a git repository, and younger than maxCommitWait
}

// Limits for git.
const (
	gitTimeout    = 2 * time.Second
	maxGitOutput  = 4 << 10        // bytes
	maxAuthor     = 80             // letters in a name
	maxCommitWait = 24 * time.Hour // an older uncommitted text is logged without a commit
)

// FileOrigin returns the author and time of a file's newest commit if that commit has this text. Otherwise, it returns
// the modification time without an author. text is nil for a removed file.
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
		o.AwaitsCommit = now.Sub(o.Time) < maxCommitWait
	default:
		o = Origin{Time: c.time, By: c.author, Commit: c.hash}
	}
	return o
}

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

type commit struct {
	hash, author string
	time         time.Time
	blob         string // the text's object id
}

// lastCommit returns a file's newest commit, or nil if no commit has the file. The options keep git from taking locks
// and from running programs that the repository configures.
func lastCommit(ctx context.Context, path string) (*commit, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
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
	var stderr limitedBuffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(pipe, maxGitOutput))
	err = errors.Join(err, cmd.Wait()) // git fails if the output is too long
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

// limitedBuffer keeps the first maxGitOutput bytes.
type limitedBuffer []byte

func (b *limitedBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxGitOutput-len(*b))]...)
	return len(p), nil
}

// authorName returns the first printable letters of a name.
func authorName(name string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	return string(letters[:min(len(letters), maxAuthor)])
}

// blobName returns git's object id for a text: a SHA-256 if digits is 64, and otherwise a SHA-1. For a removed file,
// the result is all zeros.
func blobName(text []byte, digits int) string {
	if text == nil {
		return strings.Repeat("0", digits)
	}
	blob := fmt.Appendf(nil, "blob %d\x00%s", len(text), text)
	if digits == hex.EncodedLen(sha256.Size) {
		sum := sha256.Sum256(blob)
		return hex.EncodeToString(sum[:])
	}
	sum := sha1.Sum(blob) //nolint:gosec // git computes the id of a text with SHA-1
	return hex.EncodeToString(sum[:])
}
