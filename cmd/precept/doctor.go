package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/store"
	"precept/store/sqlite"
)

// diagnosis is the output of doctor --json. The embedded Account counts the exchanges by result since the data
// directory was created: admitted = stored + spooled (waiting in the outbox) + incomplete + dropped.
type diagnosis struct {
	// OK is true if no check failed.
	OK bool `json:"ok"`
	// Warnings are faults in keys that only a server needs.
	Faults   configs.Faults `json:"config_faults,omitempty"`
	Warnings configs.Faults `json:"config_warnings,omitempty"`
	store.Account
	// Unsampled counts the stored exchanges in closed sessions without a sample.
	Unsampled   int64            `json:"unsampled"`
	DeadLetters deadLetters      `json:"set_aside"`             // sessions and exchanges that learning skips
	Store       map[string]int64 `json:"store"`                 // counts of sessions, samples, feedback and bytes
	StoreError  string           `json:"store_error,omitempty"` // why the store cannot be read
	StoreFault  string           `json:"store_fault,omitempty"` // why the store can be read, but not written
	// Missing counts the exchanges that the store received and then lost.
	Missing int64 `json:"missing,omitempty"`
	// EvictionPolicy is the policy by which a full Redis deletes keys.
	EvictionPolicy string          `json:"eviction_policy,omitempty"`
	ClockWarning   string          `json:"clock_warning,omitempty"` // difference between this machine's clock and Redis' clock
	Running        *server.RunFile `json:"running,omitempty"`
	// Ready is the running server's response to /readyz.
	Ready *readiness `json:"ready,omitempty"`
	// DataDirError is the reason why the data directory is not writable.
	DataDirError string `json:"data_dir_error,omitempty"`
}

const missingText = "stored exchanges missing from the store and the outbox: %d. Possible causes: the store was " +
	"emptied; Redis lost data in a crash, because Redis does not write to disk; store.url names another store; " +
	"`precept forget` deleted the exchanges before they were stored"

type deadLetters struct {
	Total  int          `json:"total"`  // number of dead letters
	Latest []deadLetter `json:"latest"` // the newest ones, at most maxShownDeadLetters
}

// deadLetter is a session or exchange that learning skips, because the learning step Step panicked on it.
type deadLetter struct {
	Tenant   string    `json:"tenant"`
	Session  string    `json:"session"`
	Exchange string    `json:"exchange,omitempty"`
	Step     string    `json:"step"`
	Reason   string    `json:"why"`
	At       time.Time `json:"at"`
	Tries    int       `json:"tries"`
}

const maxShownDeadLetters = 20

// addUnlearned sets Unsampled and DeadLetters.
func (d *diagnosis) addUnlearned(ctx context.Context, reader server.StoreReader) (err error) {
	if d.Unsampled, err = reader.CountUnsampled(ctx); err != nil {
		return err
	}
	list, total, err := reader.DeadLetters(ctx, maxShownDeadLetters)
	d.DeadLetters.Total = total
	for i := range list {
		letter := &list[i]
		d.DeadLetters.Latest = append(d.DeadLetters.Latest, deadLetter{
			letter.Tenant, letter.ID.String(), letter.Exchange, letter.Step, letter.Why, letter.At, letter.Tries,
		})
	}
	return err
}

func (inv *invocation) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, the store and the server, and count exchanges by result",
		Long: "Doctor checks the configuration, the data directory, the store and the running server, and counts the " +
			"exchanges (requests with their replies) by result. Exit code 0: all checks passed; 1: the configuration has " +
			"faults, the data directory is not writable, precept cannot read from or write to the store, or the running " +
			"server does not answer, is not ready or is degraded. Exchanges that were dropped, lost or set aside do " +
			"not change the exit code.",
		Args: argsValidator(cobra.NoArgs),
	}
	addJSONFlag(c, &asJSON)
	flags := inv.addConfigFlags(c, append(storeKeys(), "listen")...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, faults, warnings, err := flags.loadDespiteFaults(inv)
		if err != nil {
			return err
		}
		if cfg == nil {
			return fmt.Errorf("%w\nthe other checks need the data directory and the store; correct the file, or set --data-dir and --store-url", faults)
		}
		d, err := diagnose(c.Context(), inv.tools, cfg)
		if err != nil && len(faults) > 0 {
			err = errors.Join(faults, err)
		}
		if err != nil {
			return err
		}
		d.Faults, d.Warnings = faults, warnings
		failedChecks := d.failedChecks()
		d.OK = len(failedChecks) == 0
		if asJSON {
			return writeJSONResult(inv.stdout, d, d.OK)
		}
		if err := printDiagnosis(inv.stdout, d, outputWidth(inv.stdout)); err != nil || d.OK {
			return err
		}
		return fmt.Errorf("%s failed: %s", countNoun(len(failedChecks), "check"), strings.Join(failedChecks, ", "))
	}
	return c
}

func (d *diagnosis) failedChecks() (names []string) {
	if len(d.Faults) > 0 {
		names = append(names, "configuration")
	}
	if d.DataDirError != "" {
		names = append(names, "data directory")
	}
	if d.StoreError != "" || d.StoreFault != "" {
		names = append(names, "store")
	}
	if d.Ready != nil && (!d.Ready.Ready || d.Ready.Message != "ok") {
		names = append(names, "server")
	}
	return names
}

// diagnose checks the data directory and the store, and requests /readyz from the running server. A server that cannot
// write the data directory leaves no run.json, so diagnose asks the address in the listen key. Another server may use
// this address, so the response counts only if it says that the server stores nothing.
func diagnose(ctx context.Context, tools server.Tools, cfg *configs.Config) (diagnosis, error) {
	d := diagnosis{DeadLetters: deadLetters{Latest: []deadLetter{}}}
	if running, err := server.ReadRunFile(cfg.DataDir); err == nil {
		d.Running = &running
	} else if err := server.CheckWritable(cfg.DataDir); err != nil {
		d.DataDirError = err.Error()
	}
	if r := askReady(ctx, cfg); d.Running != nil || d.DataDirError != "" && strings.Contains(r.Message, store.NothingStored) {
		d.Ready = &r
	}
	return d, d.addAccount(ctx, tools, cfg)
}

func printDiagnosis(out io.Writer, d diagnosis, columns int) error {
	format := func(i int64) string { return strconv.FormatInt(i, 10) }
	var dropped int64
	for _, v := range d.Dropped {
		dropped += v
	}
	rows := [][]string{
		{"exchanges admitted", format(d.Admitted)},
		{"  stored", format(d.Stored)},
		{"  in the outbox, or in progress", format(d.Spooled)},
		{"  interrupted by a crash", format(d.Incomplete)},
		{"  dropped", format(dropped)},
	}
	for _, name := range slices.Sorted(maps.Keys(d.Dropped)) {
		rows = append(rows, []string{"    " + name, format(d.Dropped[name])})
	}
	rows = append(rows,
		[]string{"stored, not yet in a sample", format(d.Unsampled)},
		[]string{"posted feedback in the outbox", format(d.LateFeedback)},
		[]string{"set aside after a panic", format(int64(d.DeadLetters.Total))})
	if len(d.Store) > 0 {
		rows = append(rows, []string{"in the store", ""})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Store)) {
		label := map[string]string{"bytes": "bytes on disk", "parked": "feedback waiting for its session", "sessions": "sessions and runs"}[name]
		rows = append(rows, []string{"  " + cmp.Or(label, strings.ReplaceAll(name, "_", " ")), format(d.Store[name])})
	}
	if err := writeTable(out, rows, columns); err != nil {
		return err
	}
	for _, fault := range d.Faults {
		printWrapped(out, columns, "configuration fault: %s", report.Printable(fault.String()))
	}
	for _, fault := range d.Warnings {
		printWrapped(out, columns, "warning: a server with this configuration and environment would not start: %s", report.Printable(fault.String()))
	}
	for i := range d.DeadLetters.Latest {
		letter := &d.DeadLetters.Latest[i]
		subject := "session " + letter.Session
		if letter.Exchange != "" {
			subject = "exchange " + letter.Exchange + " in " + subject
		}
		printWrapped(out, columns, "set aside: %s in tenant %s: the learning step %s panicked %s, last at %s: %s",
			subject, report.Printable(letter.Tenant), letter.Step, countNoun(letter.Tries, "time"), letter.At.UTC().Format(time.RFC3339), report.Printable(letter.Reason))
	}
	if d.StoreError != "" {
		printWrapped(out, columns, "the store cannot be read: %s", report.Printable(d.StoreError))
	}
	if d.StoreFault != "" {
		printWrapped(out, columns, "precept cannot write to the store: %s", report.Printable(d.StoreFault))
	}
	if d.EvictionPolicy != "" {
		printWrapped(
			out, columns, "warning: Redis deletes keys, such as sessions and counters, when memory is full (maxmemory-policy %s); "+
				"set maxmemory-policy noeviction in Redis", report.Printable(d.EvictionPolicy),
		)
	}
	if d.ClockWarning != "" {
		printWrapped(out, columns, "warning: %s", d.ClockWarning)
	}
	if d.DataDirError != "" {
		printWrapped(out, columns, "%s", report.Printable(d.DataDirError))
	}
	if d.Missing > 0 {
		printWrapped(out, columns, missingText, d.Missing)
	}
	if d.Ready != nil {
		printWrapped(out, columns, "server: %s: %s", d.Ready.URL, d.Ready.Message)
	}
	if d.Running != nil {
		note := ""
		if d.Ready == nil || !d.Ready.hasAnswer {
			note = " (outdated if the server crashed)"
		}
		printWrapped(
			out, columns, "run file: pid %d, data %s, admin %s%s", d.Running.PID, d.Running.DataURL, d.Running.AdminURL, note,
		)
	}
	if d.OK {
		printWrapped(out, columns, "all checks passed")
	}
	return nil
}

// addAccount reads the account and the store's row counts. After a failure, it sets StoreError. If there is neither an
// account nor a server, it returns the error instead.
func (d *diagnosis) addAccount(ctx context.Context, tools server.Tools, cfg *configs.Config) (err error) {
	d.Account, err = store.ReadAccount(server.OutboxPath(cfg), server.IsLocked(cfg.DataDir))
	hasServer := d.Ready != nil && d.Ready.hasAnswer // a killed server leaves run.json behind
	if err != nil && !hasServer {
		return err
	}
	reader, storeErr := tools.OpenUnfiltered(ctx, cfg)
	if storeErr == nil {
		defer reader.Close() //nolint:errcheck // nothing was written
		if d.Store, storeErr = reader.Stats(ctx); storeErr == nil {
			d.Missing = max(0, d.Stored-d.Store["exchanges_ever"])
			storeErr = d.addUnlearned(ctx, reader)
			d.EvictionPolicy = server.EvictionPolicy(ctx, reader)
			d.ClockWarning = server.ClockWarning(tools.ClockDifference(ctx, reader))
			if fault := server.WriteFault(ctx, reader); fault != nil {
				d.StoreFault = fault.Error()
			}
		}
	}
	if hasServer && cfg.Store.URL == "" && errors.Is(storeErr, sqlite.ErrMissing) {
		storeErr = fmt.Errorf("%s does not exist, but a server is running; name the server's store with --store-url or PRECEPT_STORE_URL", cfg.StoreURL())
	}
	err = errors.Join(err, storeErr)
	if err != nil && (d.Admitted > 0 || hasServer) {
		d.StoreError, err = err.Error(), nil
	}
	return err
}
