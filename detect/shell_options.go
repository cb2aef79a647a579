package detect

import (
	"slices"
	"strings"
)

// optionSyntax tells how a program's options are written.
type optionSyntax struct {
	shortWithValue string // letters of the short options with a value, in the same word or the next word
	longWithValue  string // long options with a value, after "=" or in the next word
	writeOptions   string // options that make the program write a file
}

// optionSyntaxFor returns the option syntax of a program. It assumes that an unknown program has no options with a
// value in the next word.
func optionSyntaxFor(prog string) optionSyntax {
	switch prog {
	case "sed":
		return optionSyntax{shortWithValue: "efl", longWithValue: "--expression --file --line-length", writeOptions: "-i -I --in-place"}
	case "perl":
		return optionSyntax{shortWithValue: "eEFIMmxCD", writeOptions: "-i"}
	case "awk", "gawk":
		return optionSyntax{shortWithValue: "Fvfei", longWithValue: "--field-separator --assign --file --source --include"}
	case "sort":
		return optionSyntax{shortWithValue: "okStT", longWithValue: "--key --field-separator --buffer-size", writeOptions: "-o --output"}
	case "tree":
		return optionSyntax{shortWithValue: "oLPIHT", writeOptions: "-o"}
	case "yq":
		return optionSyntax{shortWithValue: "opI", writeOptions: "-i --inplace --in-place"}
	case "uniq":
		return optionSyntax{shortWithValue: "fsw", longWithValue: "--skip-fields --skip-chars --check-chars"}
	case "xargs":
		return optionSyntax{shortWithValue: "EILPnsdaJRS", longWithValue: "--arg-file --delimiter --max-args --max-chars --max-procs --process-slot-var"}
	case "git":
		return optionSyntax{writeOptions: "--output"}
	}
	return optionSyntax{}
}

// writesFile reports whether a program that usually only reads may change a file here, or start a command that may
// change one. Examples are sed -Ei, sort -o, find -delete, and some sed and awk scripts.
func (p *phrases) writesFile(prog string, args []string) bool {
	switch prog {
	case "find":
		return hasAny(args, "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
	case "go":
		return len(args) > 1 && args[0] == "env" && hasAny(args[1:], "-w", "-u")
	}
	syntax := optionSyntaxFor(prog)
	options, rest := readOptions(args, syntax, false)
	scripts, inPlace := rest[:min(1, len(rest))], false
	for _, o := range options {
		switch {
		case hasAny(strings.Fields(syntax.writeOptions), o.name):
			return true
		case hasAny([]string{"-e", "--expression", "--source"}, o.name):
			scripts = append(slices.Clip(scripts), o.value)
		case hasAny([]string{"-i", "--include"}, o.name): // awk
			inPlace = inPlace || o.value == "inplace"
		}
	}
	switch prog {
	case "uniq": // the second file is the output
		return len(rest) > 1
	case "sed":
		return slices.ContainsFunc(scripts, sedWrites)
	case "awk", "gawk":
		return inPlace || slices.ContainsFunc(scripts, p.awkWrites)
	}
	return false
}

// option is a command-line option. The name includes the hyphens, and the value may be "".
type option struct{ name, value string }

// readOptions splits arguments into options and the rest. It splits a group such as -ni into -n and -i. If untilRest is
// true, the rest begins with the first argument that is not an option, and includes everything after it.
func readOptions(args []string, syntax optionSyntax, untilRest bool) (options []option, rest []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		next := func() string {
			i++
			return strings.Join(args[min(i, len(args)):min(i+1, len(args))], "")
		}
		switch {
		case arg == "--":
			return options, append(rest, args[i+1:]...)
		case strings.HasPrefix(arg, "--"):
			name, value, hasValue := strings.Cut(arg, "=")
			if !hasValue && hasAny(strings.Fields(syntax.longWithValue), name) {
				value = next()
			}
			options = append(options, option{name, value})
		case len(arg) < 2 || arg[0] != '-':
			if untilRest {
				return options, args[i:]
			}
			rest = append(rest, arg)
		default:
			for n := 1; n < len(arg); n++ {
				o := option{name: "-" + arg[n:n+1]}
				if strings.IndexByte(syntax.shortWithValue, arg[n]) >= 0 {
					if o.value = arg[n+1:]; o.value == "" {
						o.value = next()
					}
					n = len(arg)
				}
				options = append(options, o)
			}
		}
	}
	return options, rest
}
