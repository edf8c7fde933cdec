// Package fleet asks what a whole fleet does to one server that fails and comes back. It runs real outbound.Transports, a
// thousand and more, in the virtual time of a testing/synctest bubble: every timer, circuit, budget, hint and jitter is the
// product's own. Only the server and the network are a model.
package fleet
