// Package sample holds what precept keeps of the traffic: the exchange (the new part of one turn),
// the opt-out by path, and the MPLP learning samples that are built from a closed session.
//
// Contract: every text of an exchange passes a [redact.Redactor] ([Exchange.Redact]) before it is
// written anywhere. [Build] is a pure function of a session: built twice, the samples have the same
// ids and the same bytes, so that writing them again is no harm. Nothing in this package reads a
// clock or a random source that it was not given.
package sample
