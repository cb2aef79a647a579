package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// writeJSON writes one value, indented: output of a verb with --json is for programs and is read by
// people.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLine writes one value as a line of JSON lines.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// unbounded is the width of output that --wide asks for.
const unbounded = 1 << 20

// beneath is how far a last column is indented that found no room beside the others.
const beneath = 4

// addWide adds --wide.
func addWide(c *cobra.Command, wide *bool) {
	c.Flags().BoolVar(wide, "wide", false, "as wide as it is; else it fits the terminal, or 80 columns where there is none")
}

// columns is how wide output for people may be.
func (w *world) columns(wide bool) int {
	if wide {
		return unbounded
	}
	width, _, _ := w.screen()
	return width
}

// table writes rows in columns; the first row is the heading. Where they do not fit, the last
// column stands below the others.
func table(out io.Writer, rows [][]string, columns int) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil { // of a strings.Builder
		return err
	}
	text := b.String()
	for line := range strings.Lines(text) {
		if last := len(rows[0]) - 1; last > 0 && wideness(strings.TrimRight(line, "\n")) > columns {
			return below(out, rows, last, columns)
		}
	}
	_, err := io.WriteString(out, text)
	return err
}

// below writes rows without their last column, which follows each on lines of its own.
func below(out io.Writer, rows [][]string, last, columns int) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row[:last], "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(b.String()) {
		text := strings.TrimRight(line, " \n") + "\n"
		for _, part := range broken([]rune(rows[n][last]), max(columns-beneath, 1)) {
			text += strings.Repeat(" ", beneath) + part + "\n"
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
		n++
	}
	return nil
}

// say writes a sentence; its further lines are indented.
func say(out io.Writer, columns int, format string, args ...any) {
	for i, line := range broken([]rune(fmt.Sprintf(format, args...)), max(columns-beneath, 1)) {
		if i > 0 {
			line = strings.Repeat(" ", beneath) + line
		}
		fmt.Fprintln(out, line)
	}
}

// wideness is how many columns of a terminal a text takes.
func wideness(text string) (n int) {
	for _, r := range text {
		n += cells(r)
	}
	return n
}
