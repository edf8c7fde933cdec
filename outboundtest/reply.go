package outboundtest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"time"
)

// reply is an answer that is ready to be written.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// jsonReply answers with v, which is known to encode.
func jsonReply(status int, v any) reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return reply{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

func errorReply(status int, reason string) reply {
	return jsonReply(status, map[string]string{"error": reason})
}

// with returns the reply with a header more.
func (r reply) with(name, value string) reply {
	r.header = maps.Clone(r.header)
	r.header.Set(name, value)
	return r
}

// render returns the reply as it goes over the wire: up to the end of the
// headers, and the body. The request is nil if it could not be read.
func (r reply) render(req *http.Request, last bool) (head, body []byte) {
	header := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
	maps.Copy(header, r.header)
	resp := http.Response{
		StatusCode:    r.status,
		ProtoMajor:    1,
		ProtoMinor:    1,
		Request:       req,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(r.body)),
		ContentLength: int64(len(r.body)),
		Close:         last,
	}
	var wire bytes.Buffer
	_ = resp.Write(&wire) // a bytes.Buffer takes everything
	end := bytes.Index(wire.Bytes(), []byte("\r\n\r\n")) + len("\r\n\r\n")
	return wire.Bytes()[:end], wire.Bytes()[end:]
}

// half returns the first half of b.
func half(b []byte) []byte { return b[:len(b)/2] }
