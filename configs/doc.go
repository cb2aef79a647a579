// Package configs reads the configuration from a YAML file, environment variables and flags into a Config.
//
// The embedded precept.yaml is the reference, and contains all defaults. A flag takes precedence over the environment,
// the environment over the file, and the file over the default. Parse reports all decoding and validation faults
// together, each with key, value, source and remedy. A Config never changes while in use; a reload makes a new Config.
//
// The package does not open files, and does not read the environment. The caller passes the file's text, and functions
// that read variables and secret files.
//
// Hazard: a secret must never be printed. Secrets have the type Secret, which prints as "(hidden)" in every format
// except Reveal. A fault never contains a secret.
package configs
