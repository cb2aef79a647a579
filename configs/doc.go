// Package configs reads the configuration, one YAML file with environment variables and flags, into
// a Config.
//
// The embedded precept.yaml is the reference and the only place of the defaults: Default parses
// this file. Parse reads the sources in the order flag, environment, file, default, and reports all
// faults of decoding and validation at once, each with key, value, source and remedy. A Config is a
// plain value and is never changed in use: a reload makes a new Config.
//
// The package opens no files, reads no environment, and has no clock and no log: the caller passes
// the text of the file, and functions that read variables and files of secrets.
//
// The hazard: secrets have the type Secret, which prints as "(hidden)" in every format. Reveal is
// the only access to the text, and a fault never contains the value of a secret.
package configs
