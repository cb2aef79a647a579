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

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/store"
)

// watchFlags select the watched session.
type watchFlags struct {
	tenant       string
	latest, once bool
	asJSON       bool
}

// watch returns the command that prints the turns of a session as the turns are stored.
func (inv *invocation) watch() *cobra.Command {
	var f watchFlags
	c := &cobra.Command{
		Use:   "watch SESSION | --latest",
		Short: "Follow a session: its turns, with the inserted and the withheld lessons",
		Long: "Watch asks the running server of the data directory for a session, and prints each turn " +
			"some seconds after the end of the turn: messages and calls, inserted lessons, lessons " +
			"that a random decision withheld, loops, errors and tokens. Watch ends when the session closes, and " +
			"prints the reward; Ctrl-C ends watch earlier.\n\nA session has three names: the name that its client sent, " +
			"the name in precept's response header Precept-Session, and its id. --latest " +
			"selects the session that began last. Watch uses colours on a terminal, unless NO_COLOR " +
			"is set.",
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == f.latest || len(args) > 1 {
				return misuse(errors.New(
					"watch takes one session or --latest; name one session (the dashboard lists sessions), or add --latest",
				))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&f.latest, "latest", false, "the session that began last")
	c.Flags().BoolVar(&f.once, "once", false, "print the present turns and exit")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON line for each turn")
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the session")
	return inv.withConfig(c, []string{"data_dir", "admin.tokens"}, func(c *cobra.Command, cfg *configs.Config, args []string) error {
		x := &following{
			invocation: inv, cfg: cfg, flags: &f, printed: map[string]bool{}, page: inv.page(),
		}
		if len(args) == 1 {
			x.name = args[0]
		}
		return repeat(c.Context(), time.Second, x.poll)
	})
}

// repeat calls step at intervals until step is done or fails, or until control-C.
func repeat(
	ctx context.Context, every time.Duration, step func(context.Context) (done bool, err error),
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
		case server.Pause(ctx, every) != nil:
			return nil //nolint:nilerr // control-C is the usual end
		}
	}
}

// following is the state of `precept watch`.
type following struct {
	invocation *invocation
	cfg        *configs.Config
	flags      *watchFlags
	page       page
	name       string          // name or id of the session; "" until --latest has found one
	next       int             // number of exchanges that were read
	printed    map[string]bool // exchanges that were printed
	hasHead    bool            // the head of the session was printed
	waitShown  bool            // the reason for the wait was printed
}

// poll reads the session once and prints its new turns. done is true after the last turn of a closed session,
// and after the first poll with --once.
func (x *following) poll(ctx context.Context) (done bool, err error) {
	if x.name == "" {
		if err := x.newest(ctx); err != nil {
			return false, err
		}
	}
	if x.name == "" {
		return x.wait("no session has been stored yet")
	}
	for {
		t, found, err := x.ask(ctx)
		if err != nil {
			return false, err
		}
		if !found {
			return x.wait(
				"no data of this session is stored: the session is unknown, or the first turn is not stored yet",
			)
		}
		if err := x.print(&t); err != nil {
			return false, err
		}
		if t.Next < t.Exchanges {
			continue
		}
		if t.Closed && !x.flags.asJSON {
			_, err = fmt.Fprintln(x.invocation.out, x.page.end(&t))
		}
		return t.Closed || x.flags.once, err
	}
}

// wait prints the reason for waiting, once.
func (x *following) wait(why string) (done bool, err error) {
	if x.flags.once {
		return true, errors.New(why + "; omit --once to wait")
	}
	if !x.waitShown && !x.flags.asJSON {
		x.waitShown = true
		fmt.Fprintln(x.invocation.err, why+"; waiting (Ctrl-C to stop)")
	}
	return false, nil
}

// newest finds the session that began last.
func (x *following) newest(ctx context.Context) error {
	var l store.SessionList
	q := url.Values{"tenant": {x.flags.tenant}, "limit": {"1"}}
	err := askAdmin(ctx, x.cfg, "/api/sessions?"+q.Encode(), decodeJSON(&l))
	if len(l.Sessions) > 0 {
		x.name = l.Sessions[0].ID
	}
	return err
}

// ask reads the exchanges that were stored since the last call, and the five exchanges before them. The server lists
// a retry next to the first attempt of the turn, so that a new exchange can be listed before exchanges that were
// already printed.
func (x *following) ask(ctx context.Context) (t store.Transcript, found bool, err error) {
	const back = 5
	q := url.Values{"tenant": {x.flags.tenant}, "from": {fmt.Sprint(max(0, x.next-back))}}
	err = askAdmin(ctx, x.cfg, "/api/sessions/"+url.PathEscape(x.name)+"?"+q.Encode(), decodeJSON(&t))
	var refused *refusedError
	if errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return t, false, nil
	}
	return t, err == nil, err
}

// print writes the part of the transcript that was not printed yet.
func (x *following) print(t *store.Transcript) error {
	if !x.hasHead && !x.flags.asJSON {
		x.hasHead = true
		if _, err := fmt.Fprintln(x.invocation.out, x.page.head(t)); err != nil {
			return err
		}
	}
	for i := range t.TurnItems {
		turn := &t.TurnItems[i]
		if x.printed[turn.ID] {
			continue
		}
		x.printed[turn.ID] = true
		var err error
		if x.flags.asJSON {
			err = writeLine(x.invocation.out, turn)
		} else {
			_, err = fmt.Fprintln(x.invocation.out, strings.Join(x.page.turn(turn), "\n"))
		}
		if err != nil {
			return err
		}
	}
	x.next = max(x.next, t.Next)
	return nil
}
