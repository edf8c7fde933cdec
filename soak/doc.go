// Package soak puts outbound under load on a bad network, and holds every claim it makes against the ledger of the
// payment gateway at the other end.
//
// # The load
//
// [Load] makes payments over HTTP/1.1, HTTP/1.1 over TLS and HTTP/2 over TLS, through real sockets and a fault proxy
// (toxiproxy, in a process of its own), while the gateway draws faults of its own, crashes and comes back with its ledger
// kept, while HTTP/2 servers say GOAWAY in mid-load, and while another server closes idle connections just as they are
// used again. What stays unknown is reconciled as a shop would do it: with the stored action, by another transport.
//
//	a payment ── outbound ── lane ──┬─ fault proxy ─┬─ gateway                (HTTP/1.1)
//	                                │               └─ TLS front ── gateway   (HTTP/1.1 and HTTP/2 over TLS)
//	                                └─ front that hates idle connections ── gateway
//
// One fault is left out on purpose: a layer in front that answers 4xx after the work was done. To a first attempt that is
// a lie no client can see through; outbound.OutcomeRejected trusts whoever answered. A 502 after the work is in: a 5xx
// proves nothing, and outbound says so.
//
// # The rest
//
// [Kills] kills a paying process again and again and lets it resume from what it stored. [Cancels] cancels thousands of
// calls that a server has stalled. [Hosts] calls more hosts than there may be circuits.
//
// A program that uses Load or Kills starts itself again for the fault proxies and for the paying process, so its main
// must call [RunChild] first.
package soak
