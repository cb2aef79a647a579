package store

import (
	"precept/sample"
	"precept/session"
)

// AtRequest is the value of a panic at what one request left behind.
type AtRequest struct {
	Request string // its id
	Value   any
}

// refOf names the session of an exchange.
func refOf(x *sample.Exchange) session.Ref {
	id, _ := session.ParseID(x.Session)
	return session.Ref{Tenant: x.Tenant, ID: id}
}
