package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"

	"github.com/spf13/cobra"

	"precept/store"
)

// diagnosis is the answer of doctor --json: what became of every exchange over the data directory's life. The identity is
// admitted = stored + spooled + incomplete + dropped.
type diagnosis struct {
	store.Books
	Store   map[string]int64 `json:"store"`                 // what the store counts: sessions, samples, feedback, bytes
	Trouble string           `json:"store_error,omitempty"` // why it does not
	Running *runFile         `json:"running,omitempty"`
}

func (w *world) doctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what became of every exchange, and what the store holds",
		Args:  arguments(cobra.NoArgs),
	}
	flags := addConfigFlags(c, storeKeys()...)
	c.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d, err := w.diagnose(c.Context(), flags)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(w.out, d)
		}
		return w.tell(d)
	}
	return c
}

func (w *world) diagnose(ctx context.Context, flags *configFlags) (diagnosis, error) {
	cfg, err := flags.load(w, true)
	if err != nil {
		return diagnosis{}, err
	}
	d, err := w.balance(ctx, cfg)
	if err != nil {
		return diagnosis{}, err
	}
	if r, err := readRunFile(cfg.DataDir); err == nil {
		d.Running = &r
	}
	return d, nil
}

// tell prints a diagnosis for people.
func (w *world) tell(d diagnosis) error {
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	var dropped int64
	for _, v := range d.Dropped {
		dropped += v
	}
	rows := [][]string{
		{"exchanges admitted", n(d.Admitted)},
		{"  stored", n(d.Stored)},
		{"  spooled", n(d.Spooled)},
		{"  incomplete", n(d.Incomplete)},
		{"  dropped", n(dropped)},
	}
	for _, name := range sortedKeys(d.Dropped) {
		rows = append(rows, []string{"    " + name, n(d.Dropped[name])})
	}
	for _, name := range sortedKeys(d.Store) {
		rows = append(rows, []string{name, n(d.Store[name])})
	}
	if err := table(w.out, rows); err != nil {
		return err
	}
	if d.Trouble != "" {
		fmt.Fprintf(w.out, "the store cannot be read: %s\n", printable(d.Trouble))
	}
	if d.Running != nil {
		fmt.Fprintf(w.out, "running: pid %d, data %s, admin %s (unless it crashed)\n", d.Running.PID, d.Running.Data, d.Running.Admin)
	}
	return nil
}

func sortedKeys(m map[string]int64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
