// Package sample defines the stored form of the traffic. An [Exchange] is the new part of one turn, a request and
// its reply. An [OptOut] decides which content is not stored. A [Sample] is a learning sample, in the form of MPLP,
// that is built from a closed session.
//
// The contract: every text of an exchange passes a [redact.Redactor] ([Exchange.Redact]) before it
// is written. [Build] is a pure function of a session: repeated builds give identical ids and
// bytes, so writing samples again is harmless. The package reads no clock and no random source of
// its own.
package sample
