module github.com/outbound-go/outbound/wire

go 1.25.0

require (
	github.com/outbound-go/outbound v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/net v0.58.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/outbound-go/outbound => ../
