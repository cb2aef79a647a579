// Package sample defines how traffic is stored. An [Exchange] is the new part of one turn (a request and its reply). An
// [OptOut] reports which content must not be stored. A [Sample] is a learning sample in the MPLP form.
//
// Contract: every text in an exchange is redacted ([Exchange.Redact]) before it is written. [Build] is a pure function:
// repeated builds return identical ids and bytes.
package sample
