package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// writeJSON writes v as indented JSON, because people also read --json output.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func printResult(out io.Writer, asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return writeJSON(out, v)
	}
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// countNoun returns text such as "1 lesson" or "2 lessons".
func countNoun[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

func addJSONFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

const continuationIndent = 4 // columns

func outputWidth(out io.Writer) int {
	width, _ := terminalWidth(out)
	return width
}

// terminalWidth returns a terminal's width, or 80 if out is not a terminal.
func terminalWidth(out io.Writer) (width int, isTTY bool) {
	const defaultWidth, minWidth = 80, 40
	f, ok := out.(*os.File)
	if !ok || !isTerminal(f) {
		return defaultWidth, false
	}
	width, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // a file descriptor fits into an int
	if err != nil || width < minWidth {
		return defaultWidth, true
	}
	return width, true
}

// wrapHelp wraps help texts at the terminal width, or at 100 columns. A cobra template would enlarge the binary by 11
// MB (decision 48).
func wrapHelp(stdout io.Writer, root *cobra.Command) {
	columns, isTTY := terminalWidth(stdout)
	if !isTTY {
		columns = 100
	}
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		var b strings.Builder
		out := c.OutOrStderr()
		c.SetOut(&b)
		err := usage(c)
		c.SetOut(out)
		text := b.String()
		for _, flags := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
			text = strings.Replace(
				text, strings.TrimSpace(flags.FlagUsages()),
				strings.TrimSpace(flags.FlagUsagesWrapped(columns)), 1,
			)
		}
		fmt.Fprint(out, text)
		return err
	})
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		c.Long = wrapText(c.Long, columns)
		help(c, args)
	})
}

// wrapText wraps a text, and keeps indented lines (examples).
func wrapText(text string, columns int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			out = append(out, line)
			continue
		}
		out = append(out, breakLine([]rune(line), columns)...)
	}
	return strings.Join(out, "\n")
}

// writeTable writes rows in aligned columns, the first row as the heading. If a row is wider than the output, the last
// cells of each row are written below the row.
func writeTable(out io.Writer, rows [][]string, columns int) error {
	columnsInRow := len(rows[0])
	for ; columnsInRow > 1; columnsInRow-- {
		if aligned := alignRows(rows, columnsInRow); !slices.ContainsFunc(aligned, func(line string) bool { return displayWidth(line) > columns }) {
			break
		}
	}
	var b strings.Builder
	for i, line := range alignRows(rows, columnsInRow) {
		b.WriteString(line + "\n")
		if columnsInRow == len(rows[i]) {
			continue
		}
		for _, part := range breakLine(
			[]rune(strings.Join(rows[i][columnsInRow:], "  ")), max(columns-continuationIndent, 1),
		) {
			b.WriteString(strings.Repeat(" ", continuationIndent) + part + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// alignRows pads the first columns to equal widths.
func alignRows(rows [][]string, columns int) []string {
	var widths []int
	for c := range columns {
		widest := 0
		for _, row := range rows {
			widest = max(widest, displayWidth(row[c]))
		}
		widths = append(widths, widest+2)
	}
	out := make([]string, len(rows))
	for i, row := range rows {
		var line strings.Builder
		for c := range columns {
			line.WriteString(row[c] + strings.Repeat(" ", widths[c]-displayWidth(row[c])))
		}
		out[i] = strings.TrimRight(line.String(), " ")
	}
	return out
}

func printWrapped(out io.Writer, columns int, format string, args ...any) {
	fmt.Fprintln(out, strings.Join(foldSentence(fmt.Sprintf(format, args...), columns), "\n"))
}

// foldSentence breaks a sentence into lines, and indents the lines after the first. A word longer than a line, such as
// a path, is not broken.
func foldSentence(text string, columns int) []string {
	var lines []string
	for word := range strings.SplitSeq(text, " ") {
		last := len(lines) - 1
		switch {
		case last < 0:
			lines = append(lines, word)
		case displayWidth(strings.TrimLeft(lines[last], " "))+len(" ")+displayWidth(word) <= columns-continuationIndent:
			lines[last] += " " + word
		default:
			lines = append(lines, strings.Repeat(" ", continuationIndent)+word)
		}
	}
	return lines
}

func displayWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}
