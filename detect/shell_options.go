package detect

import (
	"slices"
	"strings"
)

// xargsValues are the short options of xargs with a value in the next word: xargs -n 1 cat.
const xargsValues = "EILPnsdaJRS"

// writesFile reports whether the options of a program that usually only reads make the program change a file, such as
// sed -Ei, sort -o and find -delete. The command awk '{ print > "file" }' and the command w of sed are not recognised.
func writesFile(prog string, args []string) bool {
	has := func(short, values string, long ...string) bool {
		options, _ := readOptions(args, values, false)
		return slices.ContainsFunc(options, func(option string) bool {
			name, _, _ := strings.Cut(option, "=")
			return slices.Contains(long, name) || len(option) == 1 && strings.Contains(short, option)
		})
	}
	switch prog {
	case "find":
		return hasAny(args, "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
	case "sed":
		return has("iI", "ef", "--in-place")
	case "perl":
		return has("i", "eEFIMmxCD")
	case "awk", "gawk":
		return hasAny(args, "inplace", "-iinplace", "--include=inplace")
	case "sort":
		return has("o", "okStT", "--output")
	case "tree":
		return has("o", "oLPIHT")
	case "yq":
		return has("i", "opI", "--inplace", "--in-place")
	case "uniq": // the second file is the output
		_, files := readOptions(args, "fsw", false)
		return len(files) > 1
	case "git":
		return has("", "", "--output")
	case "go":
		return len(args) > 1 && args[0] == "env" && hasAny(args[1:], "-w", "-u")
	}
	return false
}

// readOptions returns the options in the arguments of a program, and the other arguments (rest). A short option is one
// letter: -ni has the options n and i. A long option has its hyphens and its value: --in-place=.bak. values are the
// short options with a value, which is the rest of the word or the next word. With untilRest, the options end at the
// first other argument.
func readOptions(args []string, values string, untilRest bool) (options, rest []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return options, append(rest, args[i+1:]...)
		case strings.HasPrefix(arg, "--"):
			options = append(options, arg)
		case len(arg) < 2 || arg[0] != '-':
			if untilRest {
				return options, args[i:]
			}
			rest = append(rest, arg)
		default:
			for n := 1; n < len(arg); n++ {
				options = append(options, arg[n:n+1])
				if strings.IndexByte(values, arg[n]) >= 0 {
					if n == len(arg)-1 {
						i++ // the value is the next word
					}
					break
				}
			}
		}
	}
	return options, rest
}
