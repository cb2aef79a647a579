// Package demo is a world with a known truth: lessons with fixed effects, simulated agents that
// work through tickets of hidden difficulty, and two models that succeed with the probability that
// the truth defines. The package plays the fleet through a real precept over HTTP, so that the
// report can be compared with the truth.
//
// The world is a pure function of the seed. Precept receives only the data that real agents send:
// requests and feedback. The upstream serves loopback only, and only for the fleet.
package demo
