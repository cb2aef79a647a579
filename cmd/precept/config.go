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
	command           *cobra.Command
	file              string
	trustsProjectFile bool              // the command makes this user trust precept.yaml of the working directory
	values            map[string]string // values of the given flags by configuration key
}

// projectFile is the name of the configuration file that commands read from the working directory by default.
const projectFile = "precept.yaml"

// flagValue is the flag of one configuration key. A flagValue accepts any text, because configs.Parse checks all keys
// together.
type flagValue struct {
	key    *configs.KeyInfo
	values map[string]string
}

func (v flagValue) String() string { return v.values[v.key.Path] }

func (v flagValue) Set(text string) error {
	v.values[v.key.Path] = text
	return nil
}

func (v flagValue) Type() string {
	if v.key.Bool {
		return ""
	}
	return "value"
}

// withConfig adds the configuration flags to a command, and makes the command call run with the configuration. Help
// shows only the flags of the keys in shown. The command ignores faults of keys that only a server needs.
func (inv *invocation) withConfig(c *cobra.Command, helpKeys []string, run func(*cobra.Command, *configs.Config, []string) error) *cobra.Command {
	flags := inv.addConfigFlags(c, helpKeys...)
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
		b, closeBank, err := inv.tools.OpenBank(cfg)
		if err != nil {
			return err
		}
		defer closeBank()
		return run(c.Context(), b, args)
	})
}

// addConfigFlags adds --config and one flag for each configuration key to a command, except flags that the command
// already has. Help shows only the flags of the keys in shown, or all flags if shown is empty.
func (inv *invocation) addConfigFlags(c *cobra.Command, helpKeys ...string) *configFlags {
	f := &configFlags{command: c, values: map[string]string{}}
	c.Flags().StringVar(&f.file, "config", "", "configuration file (PRECEPT_CONFIG; default: precept.yaml, if the file exists)")
	if inv.keys == nil {
		inv.keys = configKeys()
	}
	for i := range inv.keys {
		name := &inv.keys[i]
		if c.Flags().Lookup(name.Flag) != nil {
			continue
		}
		usage := name.Usage
		if name.Path == "data_dir" && len(helpKeys) > 0 {
			usage = "data directory (./data; without precept's data there, the directory of your running server, else of earlier runs of precept run)"
		}
		flag := c.Flags().VarPF(flagValue{key: name, values: f.values}, name.Flag, "", usage)
		if name.Bool {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = len(helpKeys) > 0 && !slices.Contains(helpKeys, name.Path)
	}
	return f
}

// configKeys returns the keys with their help texts.
func configKeys() []configs.KeyInfo {
	names := configs.KeyInfos()
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
	path, _ := f.findFile(inv)
	return path
}

// findFile returns the path of the configuration file. found is true if the path is precept.yaml in the working
// directory and comes from neither a flag nor a variable.
func (f *configFlags) findFile(inv *invocation) (path string, found bool) {
	if f.command.Flags().Changed("config") {
		return f.file, false
	}
	if path := firstEnv(inv.env, "PRECEPT_CONFIG"); path != "" {
		return path, false
	}
	if info, err := os.Stat(projectFile); err == nil && !info.IsDir() {
		return projectFile, true
	}
	return "", false
}

// announce prints the path of the configuration file on standard error if the file exists. With --json, announce prints
// the path only if the file was found in the working directory.
func (f *configFlags) announce(inv *invocation) {
	asJSON := f.command.Flags().Lookup("json")
	path, found := f.findFile(inv)
	if _, err := os.Stat(path); err == nil && (found || asJSON == nil || asJSON.Value.String() != "true") {
		fmt.Fprintln(inv.stderr, "precept: configuration file", report.Printable(path))
	}
}

// source returns the source of the configuration. If offline is true, faults of keys that only a server needs are
// ignored. A file that was found in the working directory must be trusted, at the start and at each reload.
func (f *configFlags) source(inv *invocation, offline bool) *server.Source {
	path, found := f.findFile(inv)
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		if found {
			if err := f.checkTrust(inv, file); err != nil {
				return nil, err
			}
		}
		c, err := configs.Parse(configs.Sources{
			FileName: path, File: file, Env: inv.env, EnvNames: inv.envNames, Flags: f.values, Offline: offline,
			ReadFile:      readSecret,
			CheckRedisURL: redis.CheckURL,
		})
		if found && f.trustsProjectFile && err == nil {
			inv.acceptFile(file)
		}
		return c, err
	}}
}

// maxSecret is the maximum size in bytes of a file that holds the value of a variable.
const maxSecret = 64 << 10

// readSecret reads a file whose path is in a variable such as PRECEPT_STORE_URL_FILE. readSecret refuses pipes and
// devices, because reading a pipe or a device could block the start.
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

// load prints the path of the configuration file, and reads the configuration for a command that starts no server.
func (f *configFlags) load(inv *invocation) (*configs.Config, error) {
	f.announce(inv)
	c, err := f.source(inv, true).Load()
	if err != nil {
		return nil, loadError(err)
	}
	f.setLocations(inv, c)
	return c, nil
}

// loadDespiteFaults is like load, but returns the faults of a configuration file instead of an error, for a command
// that reports faults and continues. faults holds the faults of all keys, and warnings the faults of keys that only a
// server needs. A faulty flag, and a file that is missing or not trusted, are errors. If a fault affects the data
// directory or the store, c is nil.
func (f *configFlags) loadDespiteFaults(inv *invocation) (c *configs.Config, faults, warnings configs.Faults, err error) {
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
	serverFaults, _ := configs.AsFaults(err)
	for _, fault := range serverFaults {
		if !slices.Contains(faults, fault) {
			warnings = append(warnings, fault)
		}
	}
	affectsData := func(fault configs.Fault) bool {
		section, _, _ := strings.Cut(fault.Key, ".")
		return fault.Key == "" && !f.isDataKeySet(inv) || section == "data_dir" || section == "store"
	}
	if slices.ContainsFunc(faults, affectsData) {
		return nil, faults, warnings, nil
	}
	f.setLocations(inv, c)
	return c, faults, warnings, nil
}

// setLocations sets the data directory and the lessons of a command. If one of them differs from the configured value,
// setLocations prints it on standard error.
func (f *configFlags) setLocations(inv *invocation, c *configs.Config) {
	if dir, reason := f.dataDir(inv, c.DataDir); dir != c.DataDir {
		fmt.Fprintf(inv.stderr, "precept: data directory %s (%s; --data-dir names another one)\n", report.Printable(dir), reason)
		c.DataDir = dir
	}
	f.useServerLessons(inv, c)
}

// useServerLessons makes a command use the bank of this user's running server if the command uses the data directory
// of that server. A flag, a variable or another configuration file takes precedence. If the server's lessons are in
// Redis, or if the configured directory has files, the command keeps the configured bank, and useServerLessons prints
// both banks.
func (f *configFlags) useServerLessons(inv *invocation, c *configs.Config) {
	r, ok := server.ReadUserRunFile(inv.env)
	if !ok || r.Lessons == "" || absolute(c.DataDir) != r.DataDir || absolute(c.Lessons) == r.Lessons {
		return
	}
	if f.path(inv) != "" && !f.isConfigOfServer(inv, r) || f.values["lessons"] != "" || firstEnv(inv.env, "PRECEPT_LESSONS") != "" {
		return
	}
	text := "precept: lessons in %s (of your running server; --lessons names another bank)\n"
	if server.IsRedis(r.Lessons) || hasEntries(c.Lessons) {
		text = "precept: lessons in " + report.Printable(c.Lessons) + "; your running server uses the lessons in %s, which --lessons selects\n"
	} else {
		c.Lessons = r.Lessons
	}
	if flag := f.command.Flags().Lookup("lessons"); flag != nil && !flag.Hidden {
		fmt.Fprintf(inv.stderr, text, report.Printable(r.Lessons))
	}
}

// isConfigOfServer reports whether the user's running server uses the configuration file of the command.
func (f *configFlags) isConfigOfServer(inv *invocation, r server.UserRun) bool {
	path := f.path(inv)
	return path != "" && absolute(path) == r.Config
}

// absolute returns the absolute form of a path, or the path itself if that fails.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// hasEntries reports whether a directory has at least one entry.
func hasEntries(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return len(entries) > 0
}

// optOutInterval is the minimum time after which a long-running command reads the configured opt-outs again.
const optOutInterval = 10 * time.Second

// optOutReader returns a function that returns the configured opt-outs. If the last read is older than optOutInterval,
// the function reads the configuration again, so that a long-running command applies changed opt-outs. While the
// configuration has faults, the last opt-outs stay in effect.
func (f *configFlags) optOutReader(inv *invocation, cfg *configs.Config) (func() *sample.OptOut, error) {
	var mu sync.Mutex
	current, err := server.NewOptOut(cfg)
	readAt, lastFault := inv.tools.Now(), ""
	return func() *sample.OptOut {
		mu.Lock()
		defer mu.Unlock()
		now := inv.tools.Now()
		if now.Sub(readAt) < optOutInterval {
			return current
		}
		readAt = now
		next, err := f.source(inv, true).Load()
		if err == nil {
			var optOut *sample.OptOut
			if optOut, err = server.NewOptOut(next); err == nil {
				current, lastFault = optOut, ""
				return current
			}
		}
		if text := err.Error(); text != lastFault {
			lastFault = text
			fmt.Fprintln(inv.stderr, "precept: the configuration was rejected, and the last opt-outs stay in effect; correct the file:", report.Printable(text))
		}
		return current
	}, err
}

// dataDir returns the data directory of a command. If this is not the configured directory, reason says why. If no data
// directory is configured and ./data has no data of precept, a command uses the data of this user's running server, or
// else the data of earlier runs of `precept run` without a server. The same applies if the running server uses the same
// configuration file, because paths in the file are relative to the server's working directory.
func (f *configFlags) dataDir(inv *invocation, configured string) (dir, reason string) {
	r, running := server.ReadUserRunFile(inv.env)
	isPlaceChosen := f.isDataLocationSet(inv) && !(running && f.isConfigOfServer(inv, r) && !f.isDataKeySet(inv))
	if isPlaceChosen || server.HoldsData(configured) {
		return configured, ""
	}
	if running {
		return r.DataDir, "of your running server"
	}
	if runDir := server.UserDataDir(inv.env); runDir != "" && isDirectory(runDir) {
		return runDir, "of earlier runs of `precept run`"
	}
	return configured, ""
}

// isDataLocationSet reports whether a configuration file is in use, or whether a flag or a variable sets data_dir or
// store.url.
func (f *configFlags) isDataLocationSet(inv *invocation) bool {
	return f.path(inv) != "" || f.isDataKeySet(inv)
}

// isDataKeySet reports whether a flag or a variable sets data_dir or store.url.
func (f *configFlags) isDataKeySet(inv *invocation) bool {
	return f.values["data_dir"] != "" || f.values["store.url"] != "" ||
		firstEnv(inv.env, "PRECEPT_DATA_DIR", "PRECEPT_STORE_URL", "PRECEPT_STORE_URL_FILE") != ""
}

// loadError adds the exit code to an error of Source.Load. A missing or unreadable file is a failure, and a faulty file
// is a misuse.
func loadError(err error) error {
	if _, ok := errors.AsType[server.FileError](err); ok {
		return err
	}
	return misuse(err)
}

// loadForServer reads the configuration for a server, and checks the configured files without which a server does not
// start.
func loadForServer(source *server.Source) (*configs.Config, error) {
	c, err := source.Load()
	if err != nil {
		return nil, loadError(err)
	}
	if faults := server.CheckFiles(c); len(faults) > 0 {
		return nil, misuse(faults)
	}
	return c, nil
}

// configFaults returns the faults of the configuration in an error of load or loadForServer.
func configFaults(err error) (configs.Faults, bool) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err != nil {
		return configs.AsFaults(coded.err)
	}
	return configs.AsFaults(err)
}
