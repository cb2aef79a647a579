// Package sample defines the stored form of the traffic: the exchange (the new part of one turn),
// the opt-out by path, and the MPLP learning samples of a closed session.
//
// The contract: every text of an exchange passes a [redact.Redactor] ([Exchange.Redact]) before it
// is written. [Build] is a pure function of a session: repeated builds give identical ids and
// bytes, so writing samples again is harmless. The package reads no clock and no random source of
// its own.
package sample
