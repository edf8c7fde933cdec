package outboundtest

import "fmt"

// Point is where in a request a fault strikes. The zero value is None.
type Point int

// The points, in the order a request comes by them.
const (
	// None is no point: the request gets its answer.
	None Point = iota
	// BeforeAccept ends a new connection as soon as it is accepted. On a
	// connection that is already open it ends it when the next write's first
	// byte arrives.
	BeforeAccept
	// BeforeRead ends the connection when the request's first byte has
	// arrived; the gateway knows neither its key nor its order.
	BeforeRead
	// BeforeWork strikes when the request is read whole and nothing is done.
	BeforeWork
	// DuringWork strikes when the work has begun. The work goes on and is
	// stored, so a retry finds its key in use (409 with Plain) until it is done
	// and meets the result from then on. With no work to do it is the same as
	// AfterWork.
	DuringWork
	// AfterWork strikes when the work is done and stored, and not a byte of
	// the reply is written.
	AfterWork
	// InHeaders strikes when the work is done and stored, and half of the
	// reply's headers are written.
	InHeaders
	// InBody strikes when the work is done and stored, and the reply's
	// headers and half of its body are written.
	InBody
)

var pointNames = [...]string{
	None:         "none",
	BeforeAccept: "before-accept",
	BeforeRead:   "before-read",
	BeforeWork:   "before-work",
	DuringWork:   "during-work",
	AfterWork:    "after-work",
	InHeaders:    "in-headers",
	InBody:       "in-body",
}

// String returns the point's name, such as "after-work".
func (p Point) String() string {
	if !p.valid() {
		return fmt.Sprintf("Point(%d)", int(p))
	}
	return pointNames[p]
}

func (p Point) valid() bool { return p >= 0 && int(p) < len(pointNames) }

// reachesWork tells whether the request comes as far as its work.
func (p Point) reachesWork() bool { return p == None || p >= DuringWork }

// End is how a fault leaves the connection. The zero value is FIN.
type End int

const (
	// FIN closes the connection in good order: the client reads EOF.
	FIN End = iota
	// RST resets the connection: the client reads ECONNRESET.
	RST
	// Silence sends nothing more. The connection stays open until the client
	// closes it or the gateway stops.
	Silence
)

var endNames = [...]string{FIN: "fin", RST: "rst", Silence: "silence"}

// String returns the end's name: "fin", "rst" or "silence".
func (e End) String() string {
	if !e.valid() {
		return fmt.Sprintf("End(%d)", int(e))
	}
	return endNames[e]
}

func (e End) valid() bool { return e >= 0 && int(e) < len(endNames) }
