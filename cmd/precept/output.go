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

// writeJSON writes one value as JSON. The JSON is indented, because people also read the output of --json.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeLine writes one value as one line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printResult writes the result of a command as JSON, or as a sentence.
func printResult(out io.Writer, asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return writeJSON(out, v)
	}
	_, err := fmt.Fprintf(out, format+"\n", args...)
	return err
}

// countNoun formats a number with its noun, such as "1 lesson" or "2 lessons".
func countNoun[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// addJSONFlag adds the flag --json.
func addJSONFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// continuationIndent is the indent of cells that do not fit in their row, and of wrapped lines.
const continuationIndent = 4

// outputWidth returns the number of columns in which text output is formatted.
func outputWidth(out io.Writer) int {
	width, _ := terminalWidth(out)
	return width
}

// terminalWidth returns the width of the terminal behind out, in columns. If out is not a terminal, isTTY is false and
// the width is 80.
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

// wrapHelp wraps help texts at the width of the terminal, or at 100 columns if there is no terminal. A cobra template
// could do the same, but would enlarge the binary by 11 MB (decision 48).
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

// wrapText wraps the paragraphs of a text. Indented lines are examples and stay unchanged.
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

// writeTable writes rows in aligned columns. The first row is the heading. If the rows are wider than the output, the
// last cells of each row are written below the row.
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

// alignRows returns one line for each row. A line has the given number of columns, which are padded to equal widths.
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

// printWrapped formats a sentence like fmt.Sprintf, and writes it wrapped to the given number of columns.
func printWrapped(out io.Writer, columns int, format string, args ...any) {
	fmt.Fprintln(out, strings.Join(foldSentence(fmt.Sprintf(format, args...), columns), "\n"))
}

// foldSentence breaks a sentence at spaces into lines. The lines after the first are indented. A word that is longer
// than a line, such as a path, is not broken.
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

// displayWidth returns the number of columns that a terminal uses for a text.
func displayWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}
