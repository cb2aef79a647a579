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

// configFlags holds the --config flag, and one flag for each configuration key.
type configFlags struct {
	command           *cobra.Command
	file              string
	trustsProjectFile bool              // the command marks precept.yaml in the working directory as trusted
	values            map[string]string // given flags by configuration key
}

const projectFile = "precept.yaml"

// flagValue is a flag's value. It accepts any text, because configs.Parse checks all keys together.
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

// withConfig adds the configuration flags. Help lists only the flags for helpKeys.
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

// withBank works like withConfig, for a command that reads or changes the configured lessons.
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

// addConfigFlags adds --config and one flag for each configuration key, unless the command already has a flag with this
// name. Help lists only the flags for helpKeys, or all flags if helpKeys is empty.
func (inv *invocation) addConfigFlags(c *cobra.Command, helpKeys ...string) *configFlags {
	f := &configFlags{command: c, values: map[string]string{}}
	c.Flags().StringVar(&f.file, "config", "", "configuration file (default: PRECEPT_CONFIG, otherwise ./precept.yaml if present)")
	if inv.keys == nil {
		inv.keys = configKeys()
	}
	for i := range inv.keys {
		info := &inv.keys[i]
		if c.Flags().Lookup(info.Flag) != nil {
			continue
		}
		usage := info.Usage
		if info.Path == "data_dir" && len(helpKeys) > 0 {
			usage = "data directory (default: ./data if precept's data is there, otherwise your running server's, otherwise that of precept run)"
		}
		flag := c.Flags().VarPF(flagValue{key: info, values: f.values}, info.Flag, "", usage)
		if info.Bool {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = len(helpKeys) > 0 && !slices.Contains(helpKeys, info.Path)
	}
	return f
}

func configKeys() []configs.KeyInfo {
	infos := configs.KeyInfos()
	for i := range infos {
		info := &infos[i]
		info.Usage = strings.ReplaceAll(info.Usage, "`", "") // pflag would show a word in backquotes as the type of the value
		if info.Default != "" && info.Default != "[]" && info.Default != "{}" && !strings.Contains(info.Default, "\n") {
			info.Usage += " (" + info.Default + ")"
		}
	}
	return infos
}

func bankKeys() []string { return []string{"lessons", "store.url"} }

func storeKeys() []string { return []string{"data_dir", "store.url"} }

// path returns the path to the configuration file: from --config, PRECEPT_CONFIG or the working directory, in this
// order. An empty --config selects no file.
func (f *configFlags) path(inv *invocation) string {
	path, _ := f.findFile(inv)
	return path
}

// findFile returns the path to the configuration file, and whether the file is the default: precept.yaml in the working
// directory.
func (f *configFlags) findFile(inv *invocation) (path string, isDefault bool) {
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

// announce prints the path of the configuration file. With --json, it does so only if the file is the default.
func (f *configFlags) announce(inv *invocation) {
	asJSON := f.command.Flags().Lookup("json")
	path, isDefault := f.findFile(inv)
	if _, err := os.Stat(path); err == nil && (isDefault || asJSON == nil || asJSON.Value.String() != "true") {
		fmt.Fprintln(inv.stderr, "precept: configuration file", report.Printable(path))
	}
}

// source returns a Source for the configuration. If offline is true, it ignores faults in keys that only a server
// needs. A file found in the working directory must be trusted.
func (f *configFlags) source(inv *invocation, offline bool) *server.Source {
	path, isDefault := f.findFile(inv)
	return &server.Source{File: path, Parse: func(file []byte) (*configs.Config, error) {
		if isDefault {
			if err := f.checkTrust(inv, file); err != nil {
				return nil, err
			}
		}
		c, err := configs.Parse(configs.Sources{
			FileName: path, File: file, Env: inv.env, EnvNames: inv.envNames, Flags: f.values, Offline: offline,
			ReadFile:      readSecret,
			CheckRedisURL: redis.CheckURL,
		})
		if isDefault && f.trustsProjectFile && err == nil {
			inv.acceptFile(file)
		}
		return c, err
	}}
}

const maxSecret = 64 << 10

// readSecret reads a file named by a variable such as PRECEPT_STORE_URL_FILE. It refuses pipes and devices, which could
// block startup.
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

// load reads the configuration for a command that starts no server.
func (f *configFlags) load(inv *invocation) (*configs.Config, error) {
	f.announce(inv)
	c, err := f.source(inv, true).Load()
	if err != nil {
		return nil, loadError(err)
	}
	f.setLocations(inv, c)
	return c, nil
}

// loadDespiteFaults returns a configuration file's faults instead of an error. warnings holds the faults in keys that
// only a server needs. If a fault affects the data directory or the store, c is nil.
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

// setLocations sets a command's data directory and lessons.
func (f *configFlags) setLocations(inv *invocation, c *configs.Config) {
	if dir, reason := f.dataDir(inv, c.DataDir); dir != c.DataDir {
		fmt.Fprintf(inv.stderr, "precept: using the data directory %s (%s); to use another one, set --data-dir\n", report.Printable(dir), reason)
		c.DataDir = dir
	}
	f.useServerLessons(inv, c)
}

// useServerLessons sets c.Lessons to the lessons of this user's running server, if the command uses that server's data
// directory. A flag, a variable or a different configuration file takes precedence. If the server's lessons are in
// Redis, or the configured directory has files, the command keeps the configured lessons.
func (f *configFlags) useServerLessons(inv *invocation, c *configs.Config) {
	r, ok := server.ReadUserRunFile(inv.env)
	if !ok || r.Lessons == "" || absolutePath(c.DataDir) != r.DataDir || absolutePath(c.Lessons) == r.Lessons {
		return
	}
	if f.path(inv) != "" && !f.isServerConfig(inv, r) || f.values["lessons"] != "" || firstEnv(inv.env, "PRECEPT_LESSONS") != "" {
		return
	}
	text := "precept: using the lessons in %s (your running server's); to use others, set --lessons\n"
	if server.IsRedis(r.Lessons) || hasEntries(c.Lessons) {
		text = "precept: using the lessons in " + report.Printable(c.Lessons) + ", but your running server uses the lessons in %s; to use those, set --lessons\n"
	} else {
		c.Lessons = r.Lessons
	}
	if flag := f.command.Flags().Lookup("lessons"); flag != nil && !flag.Hidden {
		fmt.Fprintf(inv.stderr, text, report.Printable(r.Lessons))
	}
}

func (f *configFlags) isServerConfig(inv *invocation, r server.UserRun) bool {
	path := f.path(inv)
	return path != "" && absolutePath(path) == r.Config
}

func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func hasEntries(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return len(entries) > 0
}

const optOutInterval = 10 * time.Second

// optOutReader returns a function that returns the configured opt-outs, and reads them again after optOutInterval.
// While the configuration has faults, the last opt-outs stay in effect.
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
			fmt.Fprintln(inv.stderr, "precept: the configuration cannot be reloaded, so the earlier opt-outs stay in effect; correct the file:", report.Printable(text))
		}
		return current
	}, err
}

// dataDir returns a command's data directory, and the reason if it is not the configured one. If none is configured and
// ./data has no precept data, a command uses the running server's data directory or, without a server, that of earlier
// `precept run` commands.
//
// A data directory from the running server's configuration file does not count as configured, because a relative path
// in the file is relative to the server's working directory, and not to this command's.
func (f *configFlags) dataDir(inv *invocation, configured string) (dir, reason string) {
	r, running := server.ReadUserRunFile(inv.env)
	isPlaceChosen := f.isDataLocationSet(inv) && !(running && f.isServerConfig(inv, r) && !f.isDataKeySet(inv))
	if isPlaceChosen || server.HasPreceptData(configured) {
		return configured, ""
	}
	if running {
		return r.DataDir, "your running server's"
	}
	if runDir := server.UserDataDir(inv.env); runDir != "" && isDirectory(runDir) {
		return runDir, "that of earlier `precept run` commands"
	}
	return configured, ""
}

// isDataLocationSet reports whether a flag or a variable names the data directory or the store, or whether there is a
// configuration file, because the file may name them.
func (f *configFlags) isDataLocationSet(inv *invocation) bool {
	return f.path(inv) != "" || f.isDataKeySet(inv)
}

func (f *configFlags) isDataKeySet(inv *invocation) bool {
	return f.values["data_dir"] != "" || f.values["store.url"] != "" ||
		firstEnv(inv.env, "PRECEPT_DATA_DIR", "PRECEPT_STORE_URL", "PRECEPT_STORE_URL_FILE") != ""
}

// loadError adds the exit code. An unreadable file is a failure, and a faulty file is a misuse.
func loadError(err error) error {
	if _, ok := errors.AsType[server.FileError](err); ok {
		return err
	}
	return misuse(err)
}

// loadForServer loads the configuration, and checks the configured files that a server needs to start.
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

func configFaults(err error) (configs.Faults, bool) {
	var coded *codedError
	if errors.As(err, &coded) && coded.err != nil {
		return configs.AsFaults(coded.err)
	}
	return configs.AsFaults(err)
}
