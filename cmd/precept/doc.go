// Command precept is a reverse proxy in front of LLM APIs that lets unmodified agents learn from
// experience.
//
// One file is one verb. Here, and nowhere below, the clock, the random source, the logger and the
// store are made, the environment is read and signals are taken.
//
// Exit codes: 0 done; 1 it failed, or a check found something; 2 misuse: wrong flags or arguments,
// or a configuration with faults; 3 stopped, and streams that did not end within
// limits.drain_timeout (or at a second signal) were cut. What a flag or an argument names and is
// not there, cannot be read, or holds what it should not is no misuse: 1. The configuration file
// alone is one, and an entry that record reads, which stands for its flags.
package main
