module github.com/outbound-go/outbound/examples/aichat

go 1.25.0

require (
	github.com/openai/openai-go/v3 v3.74.0
	github.com/outbound-go/outbound v0.0.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/tidwall/gjson v1.19.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
)

replace github.com/outbound-go/outbound => ../../
