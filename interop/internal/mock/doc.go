// Package mock serves the tests of this module: an HTTP server that keeps every request and spoils the first of them as it is told, over
// loopback or in memory, and outbound in front of it, with every report that it made.
package mock
