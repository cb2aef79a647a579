// Package demo simulates agents and models, to compare the effects that precept measures with known true effects.
//
// The agents work on tickets with hidden difficulty, and send requests over HTTP through a real precept. A model's
// chance of success depends on the ticket and on the lessons in the request.
//
// The simulation is a pure function of the seed. precept receives only the data that real agents send: requests and
// feedback.
package demo
