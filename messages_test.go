package precept_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

type message struct{ kind, text, place string }

const (
	logLine      = "log"
	logWarning   = "log warning" // or error
	commandError = "command line"
	configFault  = "configuration"
	apiError     = "API"
	metricHelp   = "metric"
	helpText     = "help"
	consoleLine  = "console"
	otherError   = "error" // from another package; the caller adds the object
)

// With -v, the test prints all messages for a manual check. A message should name the object, say what happened to it,
// and say what to do.
func TestMessagesFollowRules(t *testing.T) {
	list := findMessages(t)
	counts := map[string]int{}
	for _, m := range list {
		counts[m.kind]++
		t.Logf("%-13s %s: %s", m.kind, m.place, m.text)
		for _, fault := range messageFaults(m) {
			t.Errorf("%s: message %q: %s", m.place, m.text, fault)
		}
	}
	for kind, minimum := range map[string]int{logLine: 5, logWarning: 30, commandError: 60, configFault: 60, apiError: 40, metricHelp: 30, helpText: 150, consoleLine: 60, otherError: 150} {
		if counts[kind] < minimum {
			t.Errorf("found %d messages of kind %s, want at least %d", counts[kind], kind, minimum)
		}
	}
}

var (
	wordsNotInMessages = regexp.MustCompile(`(?i)\b(tells?|told|anew|nobody|somebody|anybody|whoever|whatever|stands?|stood|lies|lain|put down|hand(s|ed)? (over|down)|go(es)? on|went by|of (which|whom)|bec[ao]mes? of|to be (read|had|told)|be meant|let go|as it (was|is)|the one that|shall)\b`)
	messagePronoun     = regexp.MustCompile(`^(?i:it|that|this|they|those|these|one|what|who|there|such|something|nothing)\b`)
	messageGoName      = regexp.MustCompile(`^[A-Z]+[A-Z0-9_]*\b|^[A-Z][a-z]+[A-Z]|^(Redis|Sentinel|SQLite|JSON|YAML|Retry|OpenTelemetry|Kubernetes|Content-Type|Host|Basic|Bearer|Cluster)\b`)
)

// messageFaults returns the rules that a message breaks.
func messageFaults(m message) (faults []string) {
	text, isPlain := m.text, m.kind != helpText && m.kind != consoleLine // help and console lines can be fragments
	if word := wordsNotInMessages.FindString(text); word != "" {
		faults = append(faults, fmt.Sprintf("the message uses %q", word))
	}
	if word := messagePronoun.FindString(text); word != "" && isPlain && m.kind != configFault {
		faults = append(faults, fmt.Sprintf("the message begins with %q and does not name the object", word))
	}
	if isPlain && strings.Contains(text, "!") || strings.Contains(text, "please") {
		faults = append(faults, "the message has an exclamation mark or \"please\"")
	}
	first := []rune(text)[0]
	switch {
	case !isPlain:
	case m.kind == metricHelp:
		if !unicode.IsUpper(first) && first != '1' || !strings.HasSuffix(text, ".") {
			faults = append(faults, "metric help must begin in upper case and end with a full stop")
		}
	case unicode.IsUpper(first) && !messageGoName.MatchString(text):
		faults = append(faults, "the message begins in upper case")
	case strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "..."):
		faults = append(faults, "the message ends with a full stop")
	}
	return faults
}

// findMessages returns the log messages, errors and help texts in the source code.
func findMessages(t *testing.T) (list []message) {
	t.Helper()
	files := token.NewFileSet()
	for _, name := range walk(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "tools/") {
			continue
		}
		f, err := parser.ParseFile(files, name, readText(t, name), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		add := func(kind string, n ast.Expr) {
			if text, ok := literalText(n); ok && strings.Contains(strings.TrimSpace(text), " ") {
				at := files.Position(n.Pos())
				list = append(list, message{kind, strings.TrimSpace(text), name + ":" + strconv.Itoa(at.Line)})
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Help" {
					add(metricHelp, n.Value)
				}
				if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Short" || key.Name == "Long") {
					add(helpText, n.Value)
				}
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Problem" {
					add(configFault, n.Value)
				}
			case *ast.ValueSpec:
				for i, id := range n.Names {
					if strings.HasSuffix(id.Name, "Help") && i < len(n.Values) && strings.HasSuffix(name, "metrics.go") {
						add(metricHelp, n.Values[i])
					}
				}
			case *ast.CallExpr:
				callMessages(name, n, add)
			}
			return true
		})
	}
	return list
}

// callMessages adds the arguments of a call that are messages.
func callMessages(file string, call *ast.CallExpr, add func(kind string, n ast.Expr)) {
	receiver, method := "", ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		method = f.Sel.Name
		switch x := f.X.(type) {
		case *ast.Ident:
			receiver = x.Name
		case *ast.SelectorExpr:
			receiver = x.Sel.Name
		case *ast.CallExpr:
			switch fn := x.Fun.(type) {
			case *ast.SelectorExpr:
				receiver = strings.TrimSuffix(fn.Sel.Name, "Of") // as in logOf(ctx).Warn
			case *ast.Ident:
				receiver = fn.Name
			}
		}
	case *ast.Ident:
		method = f.Name
	}
	if len(call.Args) == 0 {
		return
	}
	switch level := strings.TrimSuffix(method, "Context"); {
	case slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, level) && strings.HasSuffix(strings.ToLower(receiver), "log"):
		kind := logLine
		if level == "Warn" || level == "Error" {
			kind = logWarning
		}
		for _, a := range call.Args[:min(2, len(call.Args))] {
			add(kind, a)
		}
	case receiver == "errors" && method == "New" || receiver == "fmt" && method == "Errorf":
		folder, _, _ := strings.Cut(file, "/")
		kind, ok := map[string]string{"cmd": commandError, "proxy": apiError, "admin": apiError, "configs": configFault}[folder]
		if !ok {
			kind = otherError
		}
		add(kind, call.Args[0])
	case receiver == "fmt" && strings.HasPrefix(method, "Fprint") && strings.HasPrefix(file, "cmd/"):
		for _, a := range call.Args[1:] {
			add(consoleLine, a)
		}
	case strings.HasPrefix(file, "cmd/") && strings.Contains(method, "Var") && len(call.Args) > 2:
		add(helpText, call.Args[len(call.Args)-1])
	case strings.HasPrefix(file, "configs/") && slices.Contains([]string{"require", "fault"}, method):
		add(configFault, call.Args[len(call.Args)-1])
	case method == "NewHTTPError" || strings.HasPrefix(file, "proxy/") && slices.Contains([]string{"ErrorBody", "refusal"}, method):
		for _, a := range call.Args {
			add(apiError, a)
		}
	}
	for i, a := range call.Args[:len(call.Args)-1] {
		if text, ok := literalText(a); ok && (strings.HasPrefix(text, "precept_") || strings.HasPrefix(text, "gen_ai_")) && !strings.Contains(text, " ") {
			add(metricHelp, call.Args[i+1])
		}
	}
}

// literalText returns the text of a string or a concatenation, with "..." for each part that is not a literal.
func literalText(n ast.Expr) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, err == nil && n.Kind == token.STRING
	case *ast.ParenExpr:
		return literalText(n.X)
	case *ast.BinaryExpr:
		x, okX := literalText(n.X)
		y, okY := literalText(n.Y)
		if !okX {
			x = "..."
		}
		if !okY {
			y = "..."
		}
		return x + y, n.Op == token.ADD && (okX || okY)
	}
	return "", false
}

func TestOperationsPageListsLogMessages(t *testing.T) {
	var listed []string
	_, page, _ := strings.Cut(readText(t, "docs/OPERATIONS.md"), "\n## Log messages\n")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "## ") {
			break
		}
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				listed = append(listed, m[1])
			}
		}
	}
	if len(listed) < 30 {
		t.Fatalf("found %d messages in docs/OPERATIONS.md, want at least 30", len(listed))
	}
	logged := map[string]bool{}
	for _, m := range findMessages(t) {
		if m.kind != logLine && m.kind != logWarning {
			continue
		}
		for _, part := range listed {
			if strings.Contains(m.text, part) {
				logged[part] = true
			}
		}
		if m.kind == logWarning && !slices.ContainsFunc(listed, func(part string) bool { return strings.Contains(m.text, part) }) {
			t.Errorf("%s: docs/OPERATIONS.md does not list the log message %q", m.place, m.text)
		}
	}
	for _, part := range listed {
		if !logged[part] {
			t.Errorf("docs/OPERATIONS.md lists the log message %q, which the program does not log", part)
		}
	}
}
