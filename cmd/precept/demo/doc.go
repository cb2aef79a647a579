// Package demo is a world in which the truth is known: a handful of lessons with fixed effects,
// simulated agents that work through tickets of hidden difficulty, and a model that succeeds with
// exactly the probability that the truth says. It plays that fleet through a real precept over
// HTTP, so that what precept reports can be held against what is so.
//
// Contract: the world is a pure function of its seed. Nothing of it reaches precept but what real
// agents send: requests and feedback. Hazard: the upstream serves loopback only and answers nobody
// but the fleet.
package demo
