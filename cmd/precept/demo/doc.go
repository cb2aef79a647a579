// Package demo simulates agents and models with known true effects: lessons with fixed effects,
// agents that work through tickets of hidden difficulty, and two models whose probability of
// success depends on the ticket and the lessons. The agents send their requests through a real
// precept over HTTP, so that the report can be compared with the true effects.
//
// The simulation is a pure function of the seed. Precept receives only the data that real agents
// send: requests and feedback. The upstream serves loopback only, and only for the fleet.
package demo
