// Package interop holds tests only, one folder for each neighbour. They put outbound, as it is, under SDKs, as they are, and beside the
// RoundTrippers that it shares a chain with, and look at what goes over the wire and at what each side is told.
package interop
