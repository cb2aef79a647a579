// Package demo simulates agents and models, so that the effects that precept measures can be compared with known true
// effects. The lessons have fixed effects, and the agents work on tickets of hidden difficulty. There are two models,
// whose probability of success depends on the ticket and on the lessons in the request. The agents send their requests
// over HTTP through a real precept.
//
// The simulation is a pure function of the seed. precept receives only the data that real agents send, which are
// requests and feedback.
package demo
