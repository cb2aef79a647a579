package detect

import (
	"slices"
	"strings"
)

// commandList holds command patterns by program. A command matches a pattern if the arguments contain the pattern's
// words in order.
type commandList map[string][][]string

func (l commandList) addPattern(phrase string) {
	words := strings.Fields(phrase)
	l[words[0]] = append(l[words[0]], words[1:])
}

func (l commandList) matches(prog string, args []string) bool {
	return slices.ContainsFunc(l[strings.ToLower(prog)], func(words []string) bool {
		for _, a := range args {
			if len(words) > 0 && isOption(a, words[0]) {
				words = words[1:]
			}
		}
		return len(words) == 0
	})
}

// isOption reports whether an argument is the given option. The argument can include a value ("--wait=true"), or be a
// group of short options ("-zv" for "-z").
func isOption(arg, word string) bool {
	if len(word) == 2 && word[0] == '-' && len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
		return strings.IndexByte(arg, word[1]) > 0
	}
	rest, ok := strings.CutPrefix(arg, word)
	return ok && (rest == "" || rest[0] == '=')
}

// A launcher is a program that runs another command, such as ssh or docker exec.

// maxLaunchedArgs is the number of a launcher's arguments at which waitsOrPolls looks for the start of the launched
// command.
const maxLaunchedArgs = 16

// maxLaunchers is the maximum number of nested launchers, as in ssh host "docker exec db sh -c 'pg_isready'".
const maxLaunchers = 3

// waitsOrPolls reports whether a command blocks until a time or a state is reached (waits), or whether it asks once for
// a state that an agent waits for (polls). It analyses at most depth nested launchers.
func (p *phrases) waitsOrPolls(prog string, args []string, depth int) (waits, polls bool) {
	switch {
	case p.waitCommands.matches(prog, args) || p.sleepsInCode(prog, args):
		return true, false
	case p.pollCommands.matches(prog, args) || p.fetchesHealthCheck(prog, args):
		return false, true
	case depth == 0 || len(args) == 0:
		return false, false
	case p.inList("program shell", prog) && !strings.HasPrefix(args[0], "-"): // a script
		return p.waitsOrPolls(args[0][strings.LastIndexByte(args[0], '/')+1:], args[1:], depth-1)
	case p.inList("program shell", prog) && len(args) > 1 && strings.HasSuffix(args[0], "c"):
		inner := p.analyse(args[1], depth-1)
		return inner.waits, inner.polls
	case p.inList("program scripts", prog), p.launchers.matches(prog, args):
		for i := range min(len(args), maxLaunchedArgs) {
			if i == len(args)-1 && strings.Contains(args[i], " ") { // ssh host "sleep 5; ls"
				inner := p.analyse(args[i], depth-1)
				return inner.waits, inner.polls
			}
			name, rest := p.program(args[i:])
			innerDepth := 0 // 0, because later iterations of this loop reach a nested launcher's command anyway
			if p.inList("program shell", name) {
				innerDepth = depth - 1
			}
			if waits, polls = p.waitsOrPolls(name, rest, innerDepth); waits || polls {
				return waits, polls
			}
		}
	}
	return false, false
}

// sleepsInCode matches python -c "time.sleep(5)".
func (p *phrases) sleepsInCode(prog string, args []string) bool {
	return p.inList("program interprets", strings.TrimRight(prog, "0123456789.")) &&
		slices.ContainsFunc(args, p.callsSleep)
}

func (p *phrases) callsSleep(code string) bool {
	return containsAny(strings.ToLower(code), p.lists["sleeps"]...)
}

// fetchesHealthCheck matches curl localhost:3000/healthz.
func (p *phrases) fetchesHealthCheck(prog string, args []string) bool {
	return p.inList("program fetches", strings.ToLower(prog)) && slices.ContainsFunc(args, func(a string) bool {
		a, _, _ = strings.Cut(a, "?")
		_, last, ok := strings.Cut(strings.TrimRight(a, "/"), "/")
		return ok && p.inList("path health", strings.ToLower(last[strings.LastIndexByte(last, '/')+1:]))
	})
}

// namesWait matches {"action":"wait"}.
func (c *toolCall) namesWait() bool {
	action, _ := c.args.get("action", "type")
	return action.kind == stringValue && c.phrases.inList("tool wait", strings.ToLower(action.raw))
}

// isTransient reports whether a failure is a busy service, a time-out, a reset connection or a lock.
func (p *phrases) isTransient(v Judgement, failureLines []string) bool {
	if isTransientStatus(v.Code) || strings.HasSuffix(v.Rule, ":timeout") || v.Rule == "exit-code" && v.Code == timeoutExit {
		return true
	}
	low := strings.ToLower(joinLines(dropRepeats(failureLines)))
	low = strings.ReplaceAll(low, "goroutines are asleep - deadlock", "") // unlike a database's deadlock
	return containsAny(low, p.lists["passing"]...) || p.namesTransientStatus(low)
}

const timeoutExit = 124 // timeout(1)'s exit code

func isTransientStatus(code int) bool {
	return code == 408 || code == 425 || code == 429 || code >= 500 && code < 600
}

// namesTransientStatus reports whether a text names a transient HTTP status. The status must come after a label such as
// "HTTP error" or "status code:".
func (p *phrases) namesTransientStatus(low string) bool {
	for i := 0; i+3 <= len(low); i++ {
		if !isDigit(low[i]) || i > 0 && (isLetterAt(low, i-1) || low[i-1] == '.') {
			continue
		}
		end, code := i, 0
		for end < len(low) && isDigit(low[end]) && end-i < 4 {
			code = code*10 + int(low[end]-'0')
			end++
		}
		if end-i == 3 && isTransientStatus(code) && hasAnySuffix(strings.TrimRight(low[:i], " :=\"'(/.10-"), p.lists["status-before"]) {
			return true
		}
		i = end
	}
	return false
}
