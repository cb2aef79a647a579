// Package demo simulates agents and models, so that the effects that precept measures can be compared with known true
// effects.
//
// The agents work on tickets of hidden difficulty, and send their requests over HTTP through a real precept. The
// models' probability of success depends on the ticket and on the lessons in the request.
//
// The simulation is a pure function of the seed. precept receives only the data that real agents send: requests and
// feedback.
package demo
