// Package configs reads the configuration from a YAML file, environment variables and flags into a Config.
//
// The embedded precept.yaml is the reference, and contains all defaults. Parse applies the sources with the precedence
// flag, environment, file, default. It reports all faults of decoding and validation at once, each with key, value,
// source and remedy. A Config is a plain value that never changes while it is in use. A reload makes a new Config.
//
// The package opens no files, reads no environment, and has no clock and no log. The caller passes the text of the
// file, and functions that read variables and files of secrets.
//
// The hazard: a secret must never be printed. Secrets have the type Secret, which prints as "(hidden)" in every format.
// Reveal is the only access to the text, and a fault never contains the value of a secret.
package configs
