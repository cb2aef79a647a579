package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"precept/cmd/precept/server"
	"precept/configs"
)

// errUntrusted refuses a file in the working directory that this user has not accepted.
var errUntrusted = errors.New(
	projectFile + ` in this folder is not trusted yet: read the file, then run "precept check" here once`,
)

// errForeign refuses a file in the working directory that another user can replace.
var errForeign = errors.New(
	projectFile + " or its folder belongs to another user, or other users can write to it; to use the file, add --config " +
		projectFile + "; to use no file, add --config=",
)

// checkTrust checks precept.yaml in the working directory, which may come from a cloned repository. If the file expands
// an environment variable, or names a host to which precept could send keys and prompts, the user must have accepted
// the file.
func (f *configFlags) checkTrust(inv *invocation, text []byte) error {
	for _, path := range []string{projectFile, "."} {
		if info, err := os.Stat(path); err != nil {
			return err
		} else if isForeign(info) {
			return errForeign
		}
	}
	if f.trustsProjectFile || !f.mayLeakData(text) || isAccepted(inv.env, text) {
		return nil
	}
	return errUntrusted
}

// mayLeakData reports whether the file expands a variable, or names a host the command would send data to. Only
// `precept run` starts a server, and a server uses every host.
func (f *configFlags) mayLeakData(text []byte) bool {
	hosts, variables := configs.HostKeys(text)
	return variables || slices.ContainsFunc(hosts, func(key string) bool {
		return f.command.Name() == "run" || slices.Contains([]string{"store.url", "lessons", "distill.judge"}, key)
	})
}

func isAccepted(env func(string) (string, bool), text []byte) bool {
	list, err := os.ReadFile(server.TrustPath(env))
	return err == nil && slices.ContainsFunc(bytes.Fields(list), func(sum []byte) bool { return string(sum) == sha256Hex(text) })
}

// acceptFile adds a file's hash to the user's list of accepted files. If the list cannot be written, acceptFile prints
// the error.
func (inv *invocation) acceptFile(text []byte) {
	if hosts, variables := configs.HostKeys(text); len(hosts) == 0 && !variables || isAccepted(inv.env, text) {
		return
	}
	path := server.TrustPath(inv.env)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var list *os.File
		if list, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			_, err = list.WriteString(sha256Hex(text) + "\n")
			err = errors.Join(err, list.Close())
		}
	}
	if err != nil {
		fmt.Fprintf(inv.stderr, "precept: %s cannot be recorded as trusted: %v; name the file with --config in other commands\n", projectFile, err)
	}
}

func sha256Hex(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
