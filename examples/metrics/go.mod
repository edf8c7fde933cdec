module github.com/outbound-go/outbound/examples/metrics

go 1.25

require github.com/outbound-go/outbound v0.0.0

replace github.com/outbound-go/outbound => ../../
