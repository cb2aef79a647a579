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

// TokenFile is the name of the generated token's file in the data directory.
const TokenFile = "admin-token"

// EnsureToken reads the admin token that precept made for itself, or makes one: 32 random bytes in
// a file that only its owner can read. fresh says that it was made just now, which is when its
// login link is shown. When the file cannot be written, or nobody can say whether there is one, the
// token still holds for this run, and the error says why it will be another one at the next start.
func EnsureToken(dataDir string, random io.Reader) (token string, fresh bool, err error) {
	path := filepath.Join(dataDir, TokenFile)
	b, err := os.ReadFile(path)
	if err == nil {
		if token = strings.TrimSpace(string(b)); token != "" {
			return token, false, tighten(path)
		}
	}
	if _, missing := os.Stat(path); err != nil && missing == nil {
		return "", false, fmt.Errorf("read the admin token: %w; make it readable, or remove it to get a new one", err)
	}
	if token, err = randomHex(random); err != nil {
		return "", false, err
	}
	if err := file.Write(path, 0o600, []byte(token+"\n")); err != nil {
		return token, true, fmt.Errorf("keep the admin token: %w; it will be another one at the next start", err)
	}
	return token, true, nil
}

// tighten takes others' access away from a token file that was copied or restored with too much of
// it.
func tighten(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(path, 0o600)
}

// LoginLink is the address that logs a browser in with a token.
func LoginLink(base, token string) string {
	return strings.TrimSuffix(base, "/") + "/login?token=" + url.QueryEscape(token)
}
