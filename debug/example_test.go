package debug_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/debug"
)

func ExampleHandler() {
	pay, err := outbound.New(outbound.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /debug/outbound", debug.Handler(map[string]*outbound.Transport{"pay": pay}))

	server := httptest.NewServer(mux)
	defer server.Close()
	resp, err := http.Get(server.URL + "/debug/outbound?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s", body)
	// Output: []
}
