//go:build race

package main

// mostResident is how much memory a server under attack may have: the race detector, which is in
// these tests' servers too, takes several times what the program does.
const mostResident = 1 << 30
