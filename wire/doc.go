// Package wire holds tests only. They prove, with raw sockets on the server's side, that one attempt of a write is one
// request on the wire, where net/http by itself would send it again.
package wire
