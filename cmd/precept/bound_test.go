//go:build !race

package main

// mostResident is how much memory a server under attack may have.
const mostResident = 256 << 20
