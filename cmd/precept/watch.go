package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/admin"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/store"
)

type watchFlags struct {
	tenant       string
	latest, once bool
	asJSON       bool
}

func (inv *invocation) watchCommand() *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:   "watch SESSION | --latest",
		Short: "Follow a session's turns, with the lessons that precept inserts and withholds",
		Long: "Watch asks the server that uses the data directory for a session, and prints each turn a few seconds " +
			"after the turn ends: messages and calls, inserted lessons, lessons withheld at random, loops, errors and " +
			"tokens. When the session closes, watch prints the reward and exits; Ctrl-C stops watch earlier.\n\n" +
			"SESSION is the name that the client sent, the name in precept's Precept-Session response header, or the " +
			"session id. Watch uses colours on a terminal, unless NO_COLOR is set.",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == f.latest || len(args) > 1 {
				return misuse(errors.New(
					"watch needs one session or --latest, but not both; name a session (the dashboard lists all sessions), or add --latest",
				))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&f.latest, "latest", false, "watch the session that began last")
	c.Flags().BoolVar(&f.once, "once", false, "print the turns so far and exit")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON line for each turn")
	c.Flags().StringVar(&f.tenant, "tenant", "default", "the session's tenant")
	return inv.withConfig(c, []string{"data_dir", "admin.tokens"}, func(c *cobra.Command, cfg *configs.Config, args []string) error {
		w := &watcher{
			invocation: inv, cfg: cfg, flags: &f, printed: map[string]bool{}, style: inv.newPageStyle(),
		}
		if len(args) == 1 {
			w.name = args[0]
		}
		return repeat(c.Context(), time.Second, w.poll)
	})
}

// repeat calls step until step is done or fails, or until the user presses Ctrl-C.
func repeat(
	ctx context.Context, interval time.Duration, step func(context.Context) (done bool, err error),
) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	for {
		done, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // control-C is the usual end
		case done || err != nil:
			return err
		case server.Sleep(ctx, interval) != nil:
			return nil //nolint:nilerr // control-C is the usual end
		}
	}
}

// watcher prints one session's turns as the server stores them.
type watcher struct {
	invocation   *invocation
	cfg          *configs.Config
	flags        *watchFlags
	style        pageStyle
	name         string // "" until --latest has found a session
	nextExchange int
	printed      map[string]bool
	headPrinted  bool
	waitPrinted  bool
}

// poll prints new turns. done is true after a closed session's last turn and, with --once, after the stored turns.
func (w *watcher) poll(ctx context.Context) (done bool, err error) {
	if w.name == "" {
		if err := w.findNewest(ctx); err != nil {
			return false, err
		}
	}
	if w.name == "" {
		return w.reportWait("no session has been stored yet")
	}
	for {
		t, found, err := w.readExchanges(ctx)
		if err != nil {
			return false, err
		}
		if !found {
			return w.reportWait(
				"the session is unknown, or its first turn is not stored yet",
			)
		}
		if err := w.print(&t); err != nil {
			return false, err
		}
		if t.Next < t.Exchanges {
			continue
		}
		if t.Closed && !w.flags.asJSON {
			_, err = fmt.Fprintln(w.invocation.stdout, w.style.endLines(&t))
		}
		return t.Closed || w.flags.once, err
	}
}

// reportWait prints once why the watcher waits. With --once, the reason is an error.
func (w *watcher) reportWait(reason string) (done bool, err error) {
	if w.flags.once {
		return true, errors.New(reason + "; omit --once to wait")
	}
	if !w.waitPrinted && !w.flags.asJSON {
		w.waitPrinted = true
		fmt.Fprintln(w.invocation.stderr, reason+"; waiting (Ctrl-C to stop)")
	}
	return false, nil
}

func (w *watcher) findNewest(ctx context.Context) error {
	var l store.SessionList
	q := url.Values{"tenant": {w.flags.tenant}, "limit": {"1"}}
	err := askAdmin(ctx, w.cfg, "/api/sessions?"+q.Encode(), decodeJSON(&l))
	if len(l.Sessions) > 0 {
		w.name = l.Sessions[0].ID
	}
	return err
}

// readExchanges reads the new exchanges and the five before them, because the server lists a new retry next to the
// older first attempt.
func (w *watcher) readExchanges(ctx context.Context) (t store.Transcript, found bool, err error) {
	const overlap = 5
	q := url.Values{"tenant": {w.flags.tenant}, "from": {fmt.Sprint(max(0, w.nextExchange-overlap))}}
	segment, nameQuery := admin.PathName(w.name)
	for i := 0; i+1 < len(nameQuery); i += 2 {
		q.Set(nameQuery[i], nameQuery[i+1])
	}
	err = askAdmin(ctx, w.cfg, "/api/sessions/"+segment+"?"+q.Encode(), decodeJSON(&t))
	var statusErr *statusError
	if errors.As(err, &statusErr) && statusErr.status == http.StatusNotFound {
		return t, false, nil
	}
	return t, err == nil, err
}

func (w *watcher) print(t *store.Transcript) error {
	if !w.headPrinted && !w.flags.asJSON {
		w.headPrinted = true
		if _, err := fmt.Fprintln(w.invocation.stdout, w.style.headLines(t)); err != nil {
			return err
		}
	}
	for i := range t.TurnItems {
		turn := &t.TurnItems[i]
		if w.printed[turn.ID] {
			continue
		}
		w.printed[turn.ID] = true
		var err error
		if w.flags.asJSON {
			err = writeLine(w.invocation.stdout, turn)
		} else {
			_, err = fmt.Fprintln(w.invocation.stdout, strings.Join(w.style.turnLines(turn, t.Fates), "\n"))
		}
		if err != nil {
			return err
		}
	}
	w.nextExchange = max(w.nextExchange, t.Next)
	return nil
}
