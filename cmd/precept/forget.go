package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/session"
	"precept/store"
)

// forgetTimeout is ample: the deletion of a tenant with a million sessions takes a few minutes.
const forgetTimeout = 30 * time.Minute

type forgetFlags struct {
	session, tenant string
	yes, asJSON     bool
}

func (inv *invocation) forgetCommand() *cobra.Command {
	var f forgetFlags
	c := &cobra.Command{
		Use:   "forget --session NAME [--tenant NAME] | --tenant NAME",
		Short: "Delete all data of a session or a tenant",
		Long: "Forget deletes one session, or all sessions of a tenant, from the store and from a running server's " +
			"memory: the record, exchanges (requests and replies), samples, feedback and index entries. It also " +
			"overwrites the deleted parts of the files. The session's contribution to the lesson counters remains, " +
			"because a counter is a sum without a reference to sessions.\n\nA session has three names: the name that " +
			"the client sent, the name in precept's Precept-Session response header, and the id. If a server uses the " +
			"data directory, forget asks this server to delete the data; otherwise, forget changes the store directly. " +
			"If no session has the name, the exit code is 1. With several replicas and one Redis, run forget on one " +
			"replica; the others delete the data from their memory and outboxes within seconds. A replica that is down " +
			"deletes the data from its outbox at its next start, even if forget found no data in Redis.",
		Args: argsValidator(cobra.NoArgs),
	}
	c.Flags().StringVar(&f.session, "session", "", "name or id of the session to delete")
	c.Flags().StringVar(
		&f.tenant, "tenant", "",
		"tenant of the session (default \"default\"); without --session: delete all data of this tenant",
	)
	c.Flags().BoolVar(&f.yes, "yes", false, "delete without confirmation")
	addJSONFlag(c, &f.asJSON)
	return inv.withConfig(c, storeKeys(), func(c *cobra.Command, cfg *configs.Config, _ []string) error {
		return inv.runForget(c.Context(), cfg, &f)
	})
}

func (inv *invocation) runForget(ctx context.Context, cfg *configs.Config, f *forgetFlags) error {
	if f.session == "" && f.tenant == "" {
		return misuse(errors.New(
			"the session or tenant to delete is missing; add --session NAME, or --tenant NAME for all of a tenant's data",
		))
	}
	subject := "all data of the tenant " + f.tenant
	if f.session != "" {
		if f.tenant == "" {
			f.tenant = "default"
		}
		subject = "the session " + f.session + " in the tenant " + f.tenant
	}
	missing := checkStoreExists(cfg)
	if _, err := server.ReadRunFile(cfg.DataDir); missing != nil && err != nil {
		return missing
	}
	question, found := report.Printable(subject), true
	if !f.yes {
		question, found = inv.describeStored(ctx, cfg, f, question)
	}
	n := 0
	if found {
		if err := confirm(inv.stdin, inv.stderr, f, question); err != nil {
			return err
		}
		err := errDataDirLocked
		if missing == nil { // otherwise the running server has a different store, for example in Redis
			n, err = forgetOffline(ctx, inv.tools, cfg, f)
		}
		if errors.Is(err, errDataDirLocked) {
			n, err = forgetOnline(ctx, cfg, f)
		}
		if err != nil {
			return fmt.Errorf("the deletion of %s failed: %w", report.Printable(subject), err)
		}
	}
	var notFound error
	if n == 0 && f.session != "" { // the name may be wrong
		notFound = fmt.Errorf(
			"%s has no stored data, so nothing was deleted; look up the name in the dashboard's session list, or add "+
				"--tenant NAME if the session belongs to another tenant", report.Printable(subject),
		)
		if server.IsRedis(cfg.StoreURL()) {
			notFound = fmt.Errorf(
				"%w; replicas delete any data of the session that they have not yet written to Redis", notFound,
			)
		}
	}
	if f.asJSON {
		return errors.Join(writeJSON(inv.stdout, map[string]int{"forgotten": n}), notFound)
	}
	if notFound != nil {
		return notFound
	}
	if n == 0 {
		_, err := fmt.Fprintf(inv.stdout, "the tenant %s has no stored data\n", report.Printable(f.tenant))
		return err
	}
	_, err := fmt.Fprintf(inv.stdout, "deleted: %s (%s)\n", report.Printable(subject), countNoun(n, "session"))
	return err
}

// maxCounted is the largest number of sessions that forget counts before it asks for confirmation.
const maxCounted = 10_000

// describeStored adds the number of stored sessions and exchanges to the subject of the question. found is false if
// there is nothing to delete. After a failed look-up, the question has no numbers.
func (inv *invocation) describeStored(ctx context.Context, cfg *configs.Config, f *forgetFlags, subject string) (question string, found bool) {
	reader, err := inv.tools.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return subject, true
	}
	defer reader.Close() //nolint:errcheck // nothing was written
	counts, sessions := "", 0
	if f.session == "" {
		err = reader.EachSession(ctx, f.tenant, time.Time{}, time.Time{}, func(session.Row, session.SettledState) error {
			if sessions++; sessions > maxCounted {
				return io.EOF
			}
			return nil
		})
		if counts = countNoun(sessions, "session"); errors.Is(err, io.EOF) {
			counts, err = fmt.Sprintf("more than %d sessions", maxCounted), nil
		}
	} else {
		var ids []session.ID
		ids, err = store.StoredSessions(ctx, reader, f.tenant, f.session)
		exchanges := 0
		for _, id := range ids {
			if list, readErr := reader.Exchanges(ctx, f.tenant, id); readErr == nil {
				exchanges += len(list)
			}
		}
		sessions, counts = len(ids), countNoun(len(ids), "session")+", "+countNoun(exchanges, "exchange")
	}
	switch {
	case err != nil:
		return subject, true
	case sessions > 0:
		return subject + " (" + counts + ", and their samples and feedback)", true
	}
	// A server, or the outbox after a crash, can hold data that the store does not have yet.
	account, err := store.ReadAccount(server.OutboxPath(cfg), server.IsLocked(cfg.DataDir))
	_, noServer := server.ReadRunFile(cfg.DataDir)
	hasNone := noServer != nil && !server.IsRedis(cfg.StoreURL()) && err == nil && account.Spooled == 0
	return subject + " (nothing is stored yet; data that has not reached the store is deleted as well)", !hasNone
}

// confirm returns an error unless the answer is yes or --yes is set.
func confirm(in io.Reader, console io.Writer, f *forgetFlags, subject string) error {
	if f.yes {
		return nil
	}
	fmt.Fprintf(console, "Delete %s? The deletion cannot be undone. [yes/no] ", subject)
	line, err := bufio.NewReader(in).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "yes" || answer == "y" {
		return nil
	}
	if err != nil && line == "" {
		fmt.Fprintln(console)
	}
	return errors.New("the deletion was not confirmed, so nothing was deleted; answer yes, or add --yes")
}

func forgetOffline(
	ctx context.Context, tools server.Tools, cfg *configs.Config, f *forgetFlags,
) (n int, err error) {
	s, err := openOffline(ctx, tools, cfg, offlineOptions{})
	if err != nil {
		return 0, err
	}
	if f.session == "" {
		n, err = s.Store.ForgetTenant(ctx, f.tenant)
	} else {
		n, err = s.Store.ForgetSession(ctx, f.tenant, f.session)
	}
	return n, errors.Join(err, s.stop())
}

// forgetOnline asks the running server to delete the data, because the server's memory and outbox hold data that the
// store does not have yet.
func forgetOnline(
	ctx context.Context, cfg *configs.Config, f *forgetFlags,
) (int, error) {
	client, err := runningServer(cfg)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{
		"tenant": f.tenant, "session": f.session, "all": f.session == "",
	})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	var answer struct {
		Forgotten int `json:"forgotten"`
	}
	err = client.do(ctx, http.MethodPost, "/api/forget", body, decodeJSON(&answer))
	if err != nil {
		return 0, err
	}
	return answer.Forgotten, nil
}
