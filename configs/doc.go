// Package configs reads the configuration from a YAML file, environment variables and flags into a Config.
//
// The embedded precept.yaml is the reference, and contains all defaults. Parse applies the sources with the precedence
// flag, environment, file, default. It reports all decoding and validation faults together, each with key, value,
// source and remedy. A Config is a plain value that never changes while in use. A reload makes a new Config.
//
// The package opens no files, reads no environment, and has no clock and no log. The caller passes the file's text, and
// functions that read variables and secret files.
//
// The hazard: a secret must never be printed. Secrets have the type Secret, which prints as "(hidden)" in every format.
// Only Reveal returns the text, and a fault never contains a secret.
package configs
