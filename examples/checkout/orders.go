package main

import (
	"encoding/json"
	"fmt"
	"sync"
)

// order is what a customer wants to pay. Its JSON is the body of the payment request, the same bytes at every try.
type order struct {
	ID       string `json:"order"`
	Amount   int64  `json:"amount"` // in cents
	Currency string `json:"currency"`
}

func newOrders(n int) []order {
	orders := make([]order, n)
	for i := range orders {
		orders[i] = order{ID: fmt.Sprintf("order-%d", i+1), Amount: int64(1000 + 7*i), Currency: "EUR"}
	}
	return orders
}

func (o order) body() []byte {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // two strings and a number
	}
	return body
}

// eachOf calls do with 0 to n-1, a few at a time, and returns when all are done.
func eachOf(n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
