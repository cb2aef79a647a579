package redis

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var deniedCommand = regexp.MustCompile(`no permissions to run the '([^']+)' command`)

var (
	// scriptLine finds the line number in a script error.
	scriptLine   = regexp.MustCompile(`@user_script: ?(\d+)`)
	scriptDigest = regexp.MustCompile(`[0-9a-f]{40}`)
	scriptCall   = regexp.MustCompile(`call\('([A-Z]+)'`)
)

func (s *Store) withRemedy(err error) error {
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrBusy):
		if remedy := s.refusalRemedy(err.Error()); remedy != "" {
			return fmt.Errorf("%w; %s", err, remedy)
		}
	case errors.Is(err, ErrACL):
		return s.addACLRule(err)
	case errors.Is(err, ErrDown) && s.tlsParams.isRefusedClient(err):
		return fmt.Errorf("%w: %w; %s", ErrTLS, err, clientRemedy)
	case errors.Is(err, ErrDown) && !s.hasConnected.Load():
		if remedy := s.tlsParams.portRemedy(err); remedy != "" {
			return fmt.Errorf("%w; %s", err, remedy)
		}
	}
	return err
}

// addACLRule adds the command for the missing ACL rule to a refused command's error.
func (s *Store) addACLRule(err error) error {
	text, rule := err.Error(), "~"+s.prefix+":*"
	if found := deniedCommand.FindStringSubmatch(text); found != nil {
		rule = "+" + found[1]
	} else if name := s.scriptCommand(text); name != "" && !strings.Contains(text, "keys") {
		rule = "+" + name
	} else if strings.Contains(text, "channel") {
		rule = "&" + s.prefix + ":*"
	}
	return fmt.Errorf("%w; run ACL SETUSER %s %s", err, s.user, rule)
}

// scriptCommand returns the Redis command that failed in a script, or "". The server's error names only the script
// line.
func (s *Store) scriptCommand(text string) string {
	lineMatch, sha := scriptLine.FindStringSubmatch(text), scriptDigest.FindString(text)
	if lineMatch == nil || sha == "" {
		return ""
	}
	n, _ := strconv.Atoi(lineMatch[1])
	for name, script := range s.scripts {
		if script.Hash() != sha {
			continue
		}
		head, _ := scriptFiles.ReadFile("lua/common.lua")
		body, _ := scriptFiles.ReadFile("lua/" + name + ".lua")
		lines := strings.Split(string(head)+string(body), "\n")
		for _, line := range slices.Backward(lines[:min(n, len(lines))]) { // a call may begin in an earlier line
			if call := scriptCall.FindStringSubmatch(line); call != nil {
				return strings.ToLower(call[1])
			}
		}
	}
	return ""
}
