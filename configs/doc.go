// Package configs is the configuration: one YAML file, its environment variables and flags, read
// into a Config.
//
// The embedded precept.yaml is the reference and the only place of the defaults: Default is that
// file, read. Parse reads the sources in the order flag, environment, file, default, and reports
// every fault at once, those of decoding and those of meaning together, each with its key, its
// value, where it came from and what to do. A Config is a plain value; nobody changes one that is
// in force, a reload makes a new one.
//
// The package neither opens files nor reads the environment by itself, it keeps no clock and no
// log: the caller hands both over.
//
// Hazard: secrets are of type Secret, which prints as "(hidden)" wherever it is formatted or
// marshalled; Reveal is the only way to the text, and faults never show the value of a secret.
package configs
