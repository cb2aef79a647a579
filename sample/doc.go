// Package sample holds what precept keeps of the traffic: the exchange (the new part of one turn), the redactor that
// every byte of it passes before it is written anywhere, the opt-out by path, and the MPLP learning samples that are built
// from a closed session.
//
// Contract: a [Redactor] turns valid JSON into valid JSON, and what it has redacted it leaves alone when it reads it
// again. [Build] is a pure function of a session: built twice, the samples have the same ids and the same bytes, so that
// writing them again is no harm. Nothing in this package reads a clock or a random source that it was not given.
//
// Hazard: redaction finds what looks like a secret. Text that was wrapped (base64, encryption, "bob at example dot com")
// passes; [Redactor.JSON] skips long runs of base64 on purpose, since they are images.
package sample
