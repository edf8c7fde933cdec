package ai_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
	"github.com/outbound-go/outbound/provider"
)

// vendor is one API, and how its SDK is used.
type vendor struct {
	name  string
	reply string // the whole reply to ask
	event string // one event of the reply to stream, with the empty line after it
	text  string // what both say

	refusal   string // an answer with an error of the API's own
	code      string // and the code in it
	exhausted string // an answer that says that the money is used up

	profile func() outbound.Provider
	dialect outboundtest.Dialect
	prefix  string // of the paths that the dialect serves

	// open makes the SDK. With retries it is left to retry by itself.
	open func(url string, client *http.Client, retries bool) sdk
	// refused takes the SDK's own error apart; ok is false where err is not one.
	refused func(err error) (status int, code string, resp *http.Response, ok bool)
}

// sdk asks for a text, whole or piece by piece. The response is the SDK's, where it had one.
type sdk struct {
	ask    func(context.Context) (text string, resp *http.Response, err error)
	stream func(ctx context.Context, piece func(string)) (resp *http.Response, err error)
}

const secret = "sk-123"

var vendors = []vendor{
	{
		name:      "openai chat",
		reply:     `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}]}`,
		event:     `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}` + "\n\n",
		text:      "Hi",
		refusal:   `{"error":{"message":"No.","type":"some_type","code":"some_code","param":null}}`,
		code:      "some_code",
		exhausted: `{"error":{"message":"No.","type":"insufficient_quota","code":"insufficient_quota","param":null}}`,
		profile:   provider.OpenAI,
		dialect:   outboundtest.OpenAI,
		prefix:    "/v1",
		open:      openChat,
		refused:   openaiRefused,
	},
	{
		name: "openai responses",
		reply: `{"id":"r1","object":"response","status":"completed","output":[{"type":"message","id":"m1","role":"assistant",` +
			`"content":[{"type":"output_text","text":"Hi","annotations":[]}]}]}`,
		event: "event: response.output_text.delta\n" +
			`data: {"type":"response.output_text.delta","item_id":"m1","output_index":0,"content_index":0,"delta":"Hi"}` + "\n\n",
		text:      "Hi",
		refusal:   `{"error":{"message":"No.","type":"some_type","code":"some_code","param":null}}`,
		code:      "some_code",
		exhausted: `{"error":{"message":"No.","type":"insufficient_quota","code":"insufficient_quota","param":null}}`,
		profile:   provider.OpenAI,
		dialect:   outboundtest.OpenAI,
		prefix:    "/v1",
		open:      openResponses,
		refused:   openaiRefused,
	},
	{
		name:  "anthropic messages",
		reply: `{"id":"m1","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}`,
		event: "event: content_block_delta\n" +
			`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}` + "\n\n",
		text:      "Hi",
		refusal:   `{"type":"error","error":{"type":"rate_limit_error","message":"No."}}`,
		code:      "rate_limit_error",
		exhausted: `{"type":"error","error":{"type":"rate_limit_error","message":"No.","details":{"error_code":"enforced_spend_limit_reached"}}}`,
		profile:   provider.Anthropic,
		dialect:   outboundtest.Anthropic,
		open:      openMessages,
		refused:   anthropicRefused,
	},
}

func openaiClient(url string, client *http.Client, retries bool) openai.Client {
	options := []openaioption.RequestOption{
		openaioption.WithBaseURL(url), openaioption.WithAPIKey(secret), openaioption.WithHTTPClient(client),
	}
	if !retries {
		options = append(options, openaioption.WithMaxRetries(0))
	}
	return openai.NewClient(options...)
}

func openChat(url string, client *http.Client, retries bool) sdk {
	api := openaiClient(url, client, retries)
	params := openai.ChatCompletionNewParams{
		Model: openai.ChatModelGPT4o, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
	}
	return sdk{
		ask: func(ctx context.Context) (text string, resp *http.Response, err error) {
			c, err := api.Chat.Completions.New(ctx, params, openaioption.WithResponseInto(&resp))
			if err != nil {
				return "", resp, err
			}
			return c.Choices[0].Message.Content, resp, nil
		},
		stream: func(ctx context.Context, piece func(string)) (resp *http.Response, err error) {
			s := api.Chat.Completions.NewStreaming(ctx, params, openaioption.WithResponseInto(&resp))
			for s.Next() {
				piece(s.Current().Choices[0].Delta.Content)
			}
			return resp, errors.Join(s.Err(), s.Close())
		},
	}
}

func openResponses(url string, client *http.Client, retries bool) sdk {
	api := openaiClient(url, client, retries)
	params := responses.ResponseNewParams{
		Model: openai.ChatModelGPT4o, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hello")},
	}
	return sdk{
		ask: func(ctx context.Context) (text string, resp *http.Response, err error) {
			r, err := api.Responses.New(ctx, params, openaioption.WithResponseInto(&resp))
			if err != nil {
				return "", resp, err
			}
			return r.OutputText(), resp, nil
		},
		stream: func(ctx context.Context, piece func(string)) (resp *http.Response, err error) {
			s := api.Responses.NewStreaming(ctx, params, openaioption.WithResponseInto(&resp))
			for s.Next() {
				piece(s.Current().Delta)
			}
			return resp, errors.Join(s.Err(), s.Close())
		},
	}
}

func openaiRefused(err error) (status int, code string, resp *http.Response, ok bool) {
	var e *openai.Error
	if !errors.As(err, &e) {
		return 0, "", nil, false
	}
	return e.StatusCode, e.Code, e.Response, true
}

func openMessages(url string, client *http.Client, retries bool) sdk {
	options := []anthropicoption.RequestOption{
		anthropicoption.WithoutEnvironmentDefaults(),
		anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey(secret), anthropicoption.WithHTTPClient(client),
	}
	if !retries {
		options = append(options, anthropicoption.WithMaxRetries(0))
	}
	api := anthropic.NewClient(options...)
	params := anthropic.MessageNewParams{
		Model: "claude", MaxTokens: 16, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
	}
	return sdk{
		ask: func(ctx context.Context) (text string, resp *http.Response, err error) {
			m, err := api.Messages.New(ctx, params, anthropicoption.WithResponseInto(&resp))
			if err != nil {
				return "", resp, err
			}
			return m.Content[0].Text, resp, nil
		},
		stream: func(ctx context.Context, piece func(string)) (resp *http.Response, err error) {
			s := api.Messages.NewStreaming(ctx, params, anthropicoption.WithResponseInto(&resp))
			for s.Next() {
				piece(s.Current().Delta.Text)
			}
			return resp, errors.Join(s.Err(), s.Close())
		},
	}
}

func anthropicRefused(err error) (status int, code string, resp *http.Response, ok bool) {
	var e *anthropic.Error
	if !errors.As(err, &e) {
		return 0, "", nil, false
	}
	return e.StatusCode, string(e.Type()), e.Response, true
}
