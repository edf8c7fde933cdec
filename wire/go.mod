module github.com/outbound-go/outbound/wire

go 1.25

require (
	github.com/outbound-go/outbound v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/net v0.62.0
)

replace github.com/outbound-go/outbound => ../
