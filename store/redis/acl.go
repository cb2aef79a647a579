package redis

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var deniedCommands = regexp.MustCompile(`no permissions to run the '(.+)' command`)

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
	case errors.Is(err, ErrDown) && isClosedConnection(err):
		return fmt.Errorf("%w; Redis closed the connection; if Redis is running, it may have reached maxclients", err)
	}
	return err
}

// addACLRule returns a refused command's error together with the ACL SETUSER command that grants the missing
// permissions.
func (s *Store) addACLRule(err error) error {
	text, rule, channels := err.Error(), "~"+s.prefix+":*", "&"+s.prefix+":*"
	if found := deniedCommands.FindStringSubmatch(text); found != nil {
		rule = "+" + strings.ReplaceAll(found[1], "', '", " +")
		rule = strings.Replace(rule, "+publish", "+publish "+channels, 1) // the command or the channel can be missing
	} else if strings.Contains(text, "channel") {
		rule = channels
	}
	return fmt.Errorf("%w; run ACL SETUSER %s %s", err, s.user, rule)
}
