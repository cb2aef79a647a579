// Package app is the whole program but for its command line: what it is put together from, and how
// it starts, takes over another configuration, drains and stops.
//
// New makes a Server, Run is its life: it opens the listeners, claims the data directory, starts
// the owners of goroutines and waits for the reason to stop. Any number of servers may live in one
// process, each on a data directory and on ports of its own. A server runs once.
//
// Tools opens what verbs and server share: the store, the bank of lessons, a distiller. Whoever
// opens something there closes it.
package server
