package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"precept/bandit/report"
	"precept/cmd/precept/server"
	"precept/configs"
	"precept/inject/bank"
	"precept/internal/sample"
	"precept/store/redis"
)

// configFlags holds the flag --config, and one flag for each configuration key.
type configFlags struct {
	command *cobra.Command
	file    string
	trusts  bool              // the command makes this user trust precept.yaml of the working directory
	given   map[string]string // values of the given flags by configuration key
}

// projectFile is the name of the configuration file that commands read from the working directory by default.
const projectFile = "precept.yaml"

// flagValue is the flag of one configuration key. A flagValue accepts any text, because configs.Parse checks all keys
// together.
type flagValue struct {
	name  *configs.Name
	given map[string]string
}

func (v flagValue) String() string { return v.given[v.name.Path] }

func (v flagValue) Set(text string) error {
	v.given[v.name.Path] = text
	return nil
}

func (v flagValue) Type() string {
	if v.name.Bool {
		return ""
	}
	return "value"
}

// withConfig adds the configuration flags to a command, and makes the command call run with the configuration. Help
// shows only the flags of the keys in shown. The command ignores faults of keys that only a server needs.
func (inv *invocation) withConfig(c *cobra.Command, shown []string, run func(*cobra.Command, *configs.Config, []string) error) *cobra.Command {
	flags := inv.addConfigFlags(c, shown...)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := flags.load(inv)
		if err != nil {
			return err
		}
		return run(c, cfg, args)
	}
	return c
}

// withBank adds the configuration flags to a command, and makes the command call run with the configured bank.
func (inv *invocation) withBank(c *cobra.Command, run func(context.Context, *bank.Bank, []string) error) *cobra.Command {
	return inv.withConfig(c, bankKeys(), func(c *cobra.Command, cfg *configs.Config, args []string) error {
		b, closeBank, err := inv.tools.OpenWriter(cfg)
		if err != nil {
			return err
		}
		defer closeBank()
		return run(c.Context(), b, args)
	})
}

// addConfigFlags adds --config and one flag for each configuration key to a command, except flags that the command
// already has. Help shows only the flags of the keys in shown, or all flags if shown is empty.
func (inv *invocation) addConfigFlags(c *cobra.Command, shown ...string) *configFlags {
	f := &configFlags{command: c, given: map[string]string{}}
	c.Flags().StringVar(&f.file, "config", "", "configuration file (PRECEPT_CONFIG; default: precept.yaml, if the file exists)")
	if inv.names == nil {
		inv.names = configNames()
	}
	for i := range inv.names {
		name := &inv.names[i]
		if c.Flags().Lookup(name.Flag) != nil {
			continue
		}
		usage := name.Usage
		if name.Path == "data_dir" && len(shown) > 0 {
			usage = "data directory (./data; without precept's data there, the directory of your running server, else of earlier runs of precept run)"
		}
		flag := c.Flags().VarPF(flagValue{name: name, given: f.given}, name.Flag, "", usage)
		if name.Bool {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = len(shown) > 0 && !slices.Contains(shown, name.Path)
	}
	return f
}

// configNames returns the keys with their help texts.
func configNames() []configs.Name {
	names := configs.Names()
	for i := range names {
		name := &names[i]
		name.Usage = strings.ReplaceAll(name.Usage, "`", "") // pflag would show a word in backquotes as the type of the value
		if name.Default != "" && name.Default != "[]" && name.Default != "{}" && !strings.Contains(name.Default, "\n") {
			name.Usage += " (" + name.Default + ")"
		}
	}
	return names
}

// bankKeys returns the keys that help shows for commands on lessons.
func bankKeys() []string { return []string{"lessons", "store.url"} }

// storeKeys returns the keys that help shows for commands on the store.
func storeKeys() []string { return []string{"data_dir", "store.url"} }

// path returns the path of the configuration file from --config, PRECEPT_CONFIG, or the working directory, in
// this order; "" for none. An empty --config selects no file.
func (f *configFlags) path(inv *invocation) string {
	path, _ := f.find(inv)
	return path
}

// find returns the path of the configuration file. found is true if precept.yaml was found in the working directory,
// without a flag or a variable that names the file.
func (f *configFlags) find(inv *invocation) (path string, found bool) {
	if f.command.Flags().Changed("config") {
		return f.file, false
	}
	if path := variable(inv.env, "PRECEPT_CONFIG"); path != "" {
		return path, false
	}
	if info, err := os.Stat(projectFile); err == nil && !info.IsDir() {
		return projectFile, true
	}
	return "", false
}

// announce prints the path of an existing configuration file on standard error. With --json, announce prints only the
// path of a file that was found in the working directory.
func (f *configFlags) announce(inv *invocation) {
	asJSON := f.command.Flags().Lookup("json")
	path, found := f.find(inv)
	if _, err := os.Stat(path); err == nil && (found || asJSON == nil || asJSON.Value.String() != "true") {
		fmt.Fprintln(inv.err, "precept: configuration file", report.Printable(path))
	}
}

// source returns the source of the configuration. If offline is true, faults of keys that only a server needs are
// ignored. A file that was found in the working directory must be trusted, at the start and at each reload.
func (f *configFlags) source(inv *invocation, offline bool) *server.Source {
	path, found := f.find(inv)
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		if found {
			if err := f.checkTrust(inv, file); err != nil {
				return nil, err
			}
		}
		c, err := configs.Parse(configs.Sources{
			FileName: path, File: file, Env: inv.env, EnvNames: inv.envNames, Flags: f.given, Offline: offline,
			ReadFile: readSecret,
			Redis:    redis.CheckURL,
		})
		if found && f.trusts && err == nil {
			inv.accept(file)
		}
		return c, err
	}}
}

// maxSecret is the maximum size in bytes of a file that holds the value of a variable.
const maxSecret = 64 << 10

// readSecret reads a file that a variable such as PRECEPT_STORE_URL_FILE names. Pipes and devices are refused,
// because reading them could block the start.
func readSecret(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("the file is not a regular file")
	case info.Size() > maxSecret:
		return nil, errors.New("the file is larger than 64 KiB")
	}
	return os.ReadFile(name) //nolint:gosec // the operator names the file
}

// load prints the path of the configuration file, and reads the configuration for a command without a server.
func (f *configFlags) load(inv *invocation) (*configs.Config, error) {
	f.announce(inv)
	c, err := f.source(inv, true).Load()
	if err != nil {
		return nil, loadError(err)
	}
	f.usePlaces(inv, c)
	return c, nil
}

// loadFaulty is like load, but returns the faults of a configuration file instead of an error, for a command that
// reports faults and continues. faults holds the faults of all keys, and warnings the faults of keys that only a
// server needs. A faulty flag, and a file that is missing or not trusted, are errors. If a fault affects the data
// directory or the store, c is nil.
func (f *configFlags) loadFaulty(inv *invocation) (c *configs.Config, faults, warnings configs.Faults, err error) {
	f.announce(inv)
	c, err = f.source(inv, true).Load()
	faults, _ = configs.AsFaults(err)
	isFlag := func(fault configs.Fault) bool {
		return strings.HasPrefix(fault.Source, "--") || fault.Source == "flags"
	}
	if err != nil && (c == nil || len(faults) == 0 || slices.ContainsFunc(faults, isFlag)) {
		return nil, nil, nil, loadError(err)
	}
	_, err = f.source(inv, false).Load()
	all, _ := configs.AsFaults(err)
	for _, fault := range all {
		if !slices.Contains(faults, fault) {
			warnings = append(warnings, fault)
		}
	}
	hides := func(fault configs.Fault) bool {
		section, _, _ := strings.Cut(fault.Key, ".")
		return fault.Key == "" && !f.dataKeyIsSet(inv) || section == "data_dir" || section == "store"
	}
	if slices.ContainsFunc(faults, hides) {
		return nil, faults, warnings, nil
	}
	f.usePlaces(inv, c)
	return c, faults, warnings, nil
}

// usePlaces sets the data directory and the lessons of a command, and prints each place that differs from the
// configured place on standard error.
func (f *configFlags) usePlaces(inv *invocation, c *configs.Config) {
	if dir, why := f.dataDir(inv, c.DataDir); dir != c.DataDir {
		fmt.Fprintf(inv.err, "precept: data directory %s (%s; --data-dir names another one)\n", report.Printable(dir), why)
		c.DataDir = dir
	}
	f.useServedLessons(inv, c)
}

// useServedLessons makes a command use the bank of this user's running server if the command uses the data directory
// of that server. A flag, a variable, another configuration file or lessons in ./lessons take precedence. If the
// command then uses a different bank than the server, useServedLessons prints both.
func (f *configFlags) useServedLessons(inv *invocation, c *configs.Config) {
	r, ok := server.ReadUserRunFile(inv.env)
	if !ok || r.Lessons == "" || absolute(c.DataDir) != r.DataDir || absolute(c.Lessons) == r.Lessons {
		return
	}
	if f.path(inv) != "" && !f.isServed(inv, r) || f.given["lessons"] != "" || variable(inv.env, "PRECEPT_LESSONS") != "" {
		return
	}
	text := "precept: lessons in %s (of your running server; --lessons names another bank)\n"
	if server.IsRedis(r.Lessons) || holdsFiles(c.Lessons) {
		text = "precept: lessons in " + report.Printable(c.Lessons) + "; your running server uses the lessons in %s, which --lessons selects\n"
	} else {
		c.Lessons = r.Lessons
	}
	if flag := f.command.Flags().Lookup("lessons"); flag != nil && !flag.Hidden {
		fmt.Fprintf(inv.err, text, report.Printable(r.Lessons))
	}
}

// isServed reports whether the user's running server uses the configuration file of the command.
func (f *configFlags) isServed(inv *invocation, r server.UserRun) bool {
	path := f.path(inv)
	return path != "" && absolute(path) == r.Config
}

// absolute returns the absolute form of a path, or the path itself if that fails.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// holdsFiles reports whether a directory has at least one entry.
func holdsFiles(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return len(entries) > 0
}

// optOutEvery is the interval at which a running command reads the configured opt-outs again.
const optOutEvery = 10 * time.Second

// optOutReader returns a function that returns the configured opt-outs. The function reads the configuration again
// every optOutEvery, so that a long-running command applies changed opt-outs. While the configuration has faults, the
// last opt-outs stay in effect.
func (f *configFlags) optOutReader(inv *invocation, cfg *configs.Config) (func() *sample.OptOut, error) {
	var mu sync.Mutex
	last, err := server.OptOutOf(cfg)
	readAt, fault := inv.tools.Now(), ""
	return func() *sample.OptOut {
		mu.Lock()
		defer mu.Unlock()
		now := inv.tools.Now()
		if now.Sub(readAt) < optOutEvery {
			return last
		}
		readAt = now
		next, err := f.source(inv, true).Load()
		if err == nil {
			var optOut *sample.OptOut
			if optOut, err = server.OptOutOf(next); err == nil {
				last, fault = optOut, ""
				return last
			}
		}
		if text := err.Error(); text != fault {
			fault = text
			fmt.Fprintln(inv.err, "precept: the configuration was rejected, and the last opt-outs stay in effect; correct the file:", report.Printable(text))
		}
		return last
	}, err
}

// dataDir returns the data directory of a command. If this is not the configured directory, why is the reason. If no
// data directory is configured and ./data has no data of precept, a command uses the data of this user's running
// server, or else the data of earlier runs of `precept run` without a server. The same applies if the running server
// uses the same configuration file, because paths in the file are relative to the server's working directory.
func (f *configFlags) dataDir(inv *invocation, configured string) (dir, why string) {
	r, running := server.ReadUserRunFile(inv.env)
	isOther := f.dataPlaceIsSet(inv) && !(running && f.isServed(inv, r) && !f.dataKeyIsSet(inv))
	if isOther || server.HoldsData(configured) {
		return configured, ""
	}
	if running {
		return r.DataDir, "of your running server"
	}
	if own := server.UserDataDir(inv.env); own != "" && isDirectory(own) {
		return own, "of earlier runs of `precept run`"
	}
	return configured, ""
}

// dataPlaceIsSet reports whether a configuration file is in use, or a flag or a variable sets data_dir or
// store.url.
func (f *configFlags) dataPlaceIsSet(inv *invocation) bool {
	return f.path(inv) != "" || f.dataKeyIsSet(inv)
}

// dataKeyIsSet reports whether a flag or a variable sets data_dir or store.url.
func (f *configFlags) dataKeyIsSet(inv *invocation) bool {
	return f.given["data_dir"] != "" || f.given["store.url"] != "" ||
		variable(inv.env, "PRECEPT_DATA_DIR", "PRECEPT_STORE_URL", "PRECEPT_STORE_URL_FILE") != ""
}

// loadError gives an error of Source.Load its exit code. A missing or unreadable file is a failure, and a faulty file
// is a misuse.
func loadError(err error) error {
	if _, ok := errors.AsType[server.FileError](err); ok {
		return err
	}
	return misuse(err)
}

// loadServed reads the configuration for a server, and checks the files that a start needs.
func loadServed(source *server.Source) (*configs.Config, error) {
	c, err := source.Load()
	if err != nil {
		return nil, loadError(err)
	}
	if faults := server.CheckFiles(c); len(faults) > 0 {
		return nil, misuse(faults)
	}
	return c, nil
}

// configFaults returns the faults of the configuration in an error of load or loadServed.
func configFaults(err error) (configs.Faults, bool) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err != nil {
		return configs.AsFaults(coded.err)
	}
	return configs.AsFaults(err)
}
