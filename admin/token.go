package admin

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"precept/internal/file"
)

// TokenFile is the file in the data directory that holds the generated token.
const TokenFile = "admin-token"

// EnsureToken returns the admin token in the data directory, or generates 32 random bytes and stores them in a file
// that only the owner can read. If the file cannot be written, EnsureToken returns the token with an error, because
// the next start generates a different one. If the file cannot be read, token is empty.
func EnsureToken(dataDir string, random io.Reader) (token string, isNew bool, err error) {
	path := filepath.Join(dataDir, TokenFile)
	b, err := os.ReadFile(path)
	if err == nil {
		if token = strings.TrimSpace(string(b)); token != "" {
			return token, false, restrictMode(path)
		}
	}
	if _, statErr := os.Stat(path); err != nil && statErr == nil {
		return "", false, fmt.Errorf("read the admin token: %w; make the file readable, or remove the file to get a new token", err)
	}
	if token, err = randomHex(random); err != nil {
		return "", false, err
	}
	if err := file.Write(path, 0o600, []byte(token+"\n")); err != nil {
		return token, true, fmt.Errorf("store the admin token: %w; the next start makes a new token", err)
	}
	return token, true, nil
}

// restrictMode removes other users' access. A copied file or a restored backup can have a more open mode.
func restrictMode(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(path, 0o600)
}

// LoginLink returns the address that logs in with a token.
func LoginLink(base, token string) string {
	return strings.TrimSuffix(base, "/") + "/login?token=" + url.QueryEscape(token)
}
