package distill

import "strings"

// known is a failure that is the same everywhere: its words belong to a public program, and what helps is known. A lesson comes
// of it only where sessions met the failure; what is known here is how to say it.
type known struct {
	slug, title string
	advice      []string
	all         []string // words that the error holds, all of them, in lower case
	phrases     []string // what the lesson fires on
}

// knownFailures lists them; the first that fits is taken, so what is special stands before what is general.
func knownFailures() []known {
	return []known{
		{
			"read-a-file-before-editing-it", "Read a file with the reading tool before you edit or overwrite it.",
			[]string{"The editing tool refuses a file that was not read in this session. Read it first, then make the edit against what you read."},
			[]string{"file has not been read yet"},
			[]string{"File has not been read yet"},
		},
		{
			"reread-a-file-that-changed-since-it-was-read", "Read a file again when it has changed since you read it, then redo the edit.",
			[]string{"A formatter, a person or an earlier edit changed the file. Read the place again and make the edit against the present text."},
			[]string{"modified since", "read"},
			[]string{"has been modified since read", "modified since it was read", "modified since last read"},
		},
		{
			"copy-the-text-to-replace-exactly-from-the-file", "Copy the text to replace from the file as it is now, whitespace included, before you edit again.",
			[]string{
				"The edit failed because the old text does not stand in the file letter by letter. Read the lines in question again and copy them with their indentation.",
				"Take a shorter unique piece when the passage is long; do not repeat the edit from memory.",
			},
			[]string{"string to replace not found"},
			[]string{"String to replace not found"},
		},
		{
			"copy-the-text-to-replace-exactly-from-the-file", "Copy the text to replace from the file as it is now, whitespace included, before you edit again.",
			[]string{
				"The edit failed because the old text does not stand in the file letter by letter. View the lines in question again and copy them with their indentation.",
				"Take a shorter unique piece when the passage is long; do not repeat the edit from memory.",
			},
			[]string{"did not appear verbatim"},
			[]string{"did not appear verbatim", "No replacement was performed"},
		},
		{
			"copy-the-text-to-replace-exactly-from-the-file", "Copy the text to replace from the file as it is now, whitespace included, before you edit again.",
			[]string{"The edit failed because the old text does not stand in the file letter by letter. Read the lines in question again and copy them with their indentation."},
			[]string{"could not find", "exact text"},
			[]string{"Could not find the exact text"},
		},
		{
			"make-the-text-to-replace-unique", "Add lines of context until the text to replace occurs only once in the file.",
			[]string{"The old text stands in the file several times, so the edit is ambiguous. Include the lines before and after it, or ask for all occurrences if that is what you want."},
			[]string{"multiple occurrences"},
			[]string{"Multiple occurrences of"},
		},
		{
			"make-the-text-to-replace-unique", "Add lines of context until the text to replace occurs only once in the file.",
			[]string{"The old text stands in the file several times, so the edit is ambiguous. Include the lines before and after it, or replace all occurrences if that is what you want."},
			[]string{"found", "matches of the string to replace"},
			[]string{"matches of the string to replace"},
		},
		{
			"give-absolute-paths-to-file-tools", "Give absolute paths to the file tools.",
			[]string{"A relative path is refused. Start the path with `/`, from the root of the repository; the error often names the full path that it expects."},
			[]string{"not an absolute path"},
			[]string{"is not an absolute path"},
		},
		{
			"install-a-missing-python-module-first", "Install a missing Python module before you run the script again.",
			[]string{
				"`ModuleNotFoundError` names the module; its package may be called otherwise (`cv2` is `opencv-python`, `PIL` is `pillow`, `bs4` is `beautifulsoup4`).",
				"If it is a module of the project itself, run from the project's root or install the project instead.",
			},
			[]string{"modulenotfounderror"},
			[]string{"ModuleNotFoundError: No module named"},
		},
		{
			"check-the-module-path-and-extension-of-imports", "Check the path and extension of an import before you run Node again.",
			[]string{"Node could not find the module: look whether the file exists under that very name, whether its extension fits (`.js` or `.ts`), or whether the package has to be installed."},
			[]string{"err_module_not_found"},
			[]string{"ERR_MODULE_NOT_FOUND"},
		},
		{
			"list-the-npm-scripts-before-running-one", "Look up which scripts package.json has before you run one.",
			[]string{"The script does not exist in this package. `npm run` without a name lists those that do; in a monorepo they may stand in another workspace."},
			[]string{"npm", "missing script"},
			[]string{"Missing script"},
		},
		{
			"start-inline-code-at-column-zero", "Start code that you hand to an interpreter at column zero, without leading spaces.",
			[]string{"Python refuses code whose first line is indented. Remove the common indentation of the whole snippet before you run it."},
			[]string{"indentationerror: unexpected indent"},
			[]string{"IndentationError: unexpected indent"},
		},
		{
			"write-multi-line-code-to-a-file-with-a-heredoc", "Write code of several lines to a file with a quoted heredoc instead of echo with escaped line feeds.",
			[]string{"`echo` leaves `\\n` as two characters and the shell expands quotes and backquotes. Use `cat > file <<'EOF'`, or the editing tool, then run the file."},
			[]string{"syntaxerror: unexpected character after line continuation"},
			[]string{"unexpected character after line continuation character"},
		},
		{
			"import-or-define-names-in-every-code-run", "Import or define every name in the code that uses it; each run starts from nothing.",
			[]string{"A `NameError` in a fresh interpreter means that the name was defined in an earlier run or only described. Add the import or the definition to the same piece of code."},
			[]string{"nameerror", "is not defined"},
			[]string{"NameError: name"},
		},
		{
			"print-the-keys-before-you-index-by-name", "Print the names that are there before you index a table or a dictionary by name.",
			[]string{"A `KeyError` means that the header or the key is another one than expected: look at `df.columns` and the first rows, or at the keys, and use what is there."},
			[]string{"keyerror: '"},
			[]string{"KeyError"},
		},
		{
			"check-for-none-before-iterating-over-a-result", "Check what a helper returned before you iterate over it.",
			[]string{"`'NoneType' object is not iterable` means that the call before gave nothing. Print or test its result, and handle the empty case instead of running the same code again."},
			[]string{"'nonetype' object is not"},
			[]string{"'NoneType' object is not"},
		},
		{
			"rebase-before-pushing-again", "Fetch and rebase onto the remote branch before you push again.",
			[]string{"The remote has commits that you do not have. Run `git pull --rebase`, resolve conflicts, run the tests, and push; do not force."},
			[]string{"failed to push some refs"},
			[]string{"failed to push some refs"},
		},
		{
			"use-a-virtual-environment-for-pip", "Create a virtual environment before you install Python packages.",
			[]string{"The system Python is managed by the operating system and refuses `pip install`. Run `python3 -m venv .venv` and use `.venv/bin/pip`."},
			[]string{"externally-managed-environment"},
			[]string{"externally-managed-environment"},
		},
		{
			"free-the-port-or-take-another-one", "Find out who holds a port, or take another one, before you start the server again.",
			[]string{"The address is in use, most often by a server that you started before. Stop that very process, or choose a free port."},
			[]string{"eaddrinuse"},
			[]string{"EADDRINUSE"},
		},
		{
			"free-the-port-or-take-another-one", "Find out who holds a port, or take another one, before you start the server again.",
			[]string{"The address is in use, most often by a server that you started before. Stop that very process, or choose a free port."},
			[]string{"address already in use"},
			[]string{"address already in use"},
		},
		{
			"quote-globs-and-brackets-for-zsh", "Quote patterns and brackets on the command line.",
			[]string{"zsh refuses a pattern that matches no file. Put quotes around globs, brackets and question marks that are meant for the program."},
			[]string{"no matches found"},
			[]string{"zsh: no matches found"},
		},
		{
			"run-git-inside-the-repository", "Change into the repository, or name it with `git -C`, before you use git.",
			[]string{"The working directory is no git repository. Each call may start in another directory than the one before."},
			[]string{"not a git repository"},
			[]string{"not a git repository"},
		},
		{
			"read-large-files-in-parts", "Read a large file in parts, or search it, instead of reading it whole.",
			[]string{"The file is over the tool's limit. Give an offset and a limit, or look for the place with a search first."},
			[]string{"exceeds maximum allowed"},
			[]string{"exceeds maximum allowed tokens", "exceeds maximum allowed size"},
		},
		{
			"list-the-directory-before-using-an-unseen-path", "List the directory before you use a path that you have not seen.",
			[]string{"The path does not exist as guessed. `ls` or `find` shows what is there; each call may also start in another directory than you think."},
			[]string{": no such file or directory"},
			[]string{"No such file or directory"},
		},
		{
			"list-the-directory-before-using-an-unseen-path", "List the directory before you use a path that you have not seen.",
			[]string{"The path does not exist as guessed. View the directory above it, or search for the file's name, instead of guessing again."},
			[]string{"the path", "does not exist", "valid path"},
			[]string{"does not exist. Please provide a valid path"},
		},
		{
			"read-files-only-after-checking-that-they-exist", "Check that a data file is there, or fetch it, before code reads it.",
			[]string{"The code assumed a file in the working directory. List the directory first; if the file is not there, download it or ask for it, and do not run the same code again."},
			[]string{"filenotfounderror", "no such file or directory"},
			[]string{"FileNotFoundError"},
		},
		{
			"empty-a-directory-before-rmdir", "Look into a directory before you remove it; rmdir removes empty ones only.",
			[]string{"List what is left in it, and remove that deliberately, if it may go, before the directory."},
			[]string{"rmdir", "directory not empty"},
			[]string{"Directory not empty"},
		},
		{
			"call-only-functions-that-are-offered", "Call only functions that are on offer; do not invent one.",
			[]string{"“No such function name” means that the function does not exist, whatever it is called. Take one from the list of tools, or say that none does what is needed."},
			[]string{"no such function name"},
			[]string{"No such function name"},
		},
		{
			"report-missing-access-instead-of-retrying", "Report that access is missing instead of calling an API again that asks for a key.",
			[]string{"No argument of yours gives access: the key has to be configured by whoever runs the agent. Go on without the tool, or say what is needed."},
			[]string{"api key", "required"},
			[]string{"API key is required"},
		},
		{
			"wait-before-calling-a-rate-limited-api-again", "Wait, and then ask less often, when an API answers that the rate limit is reached.",
			[]string{"Calling again at once makes it worse. Wait for the time that the answer names, put several questions into one call, or go on with something else."},
			[]string{"rate limit"},
			[]string{"rate limit exceeded", "rate limited", "rate limit reached"},
		},
		{
			"wait-before-calling-a-rate-limited-api-again", "Wait, and then ask less often, when an API answers that the rate limit is reached.",
			[]string{"Calling again at once makes it worse. Wait for the time that the answer names, put several questions into one call, or go on with something else."},
			[]string{"too many requests"},
			[]string{"Too Many Requests"},
		},
	}
}

// recognise finds the known failure that a result tells of.
func recognise(list []known, text string) *known {
	low := strings.ToLower(text)
next:
	for i := range list {
		for _, w := range list[i].all {
			if !strings.Contains(low, w) {
				continue next
			}
		}
		return &list[i]
	}
	return nil
}
