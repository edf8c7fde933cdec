// Command aichat asks a chat API through its own SDK, openai-go, on top of outbound. The API is a small one on this machine
// that is busy, goes silent and loses replies, and whose ledger tells afterwards what was generated and billed.
//
//	go run ./examples/aichat
//
// Exit status 1 says that outbound did not do what is said of it here, or that the demo could not run.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
)

const (
	batchSize = 20
	inFlight  = 5 // prompts of the batch at once

	idleTimeout = 2 * time.Second
	enough      = time.Minute // the demo takes some seconds
)

func main() { os.Exit(run(os.Stdout, os.Stderr)) }

func run(stdout, stderr io.Writer) int {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	found, err := demo(ctx, stdout)
	if err != nil {
		say(stderr, "aichat: %v\n", err)
		return 1
	}
	return found.conclude(stdout)
}

// chat is the SDK's client on outbound, and the API that it talks to.
type chat struct {
	client    openai.Client
	transport *outbound.Transport
	api       *api
}

func newChat(faults map[string][]fault, allowDuplicates bool) (*chat, error) {
	transport, err := outbound.New(config(allowDuplicates))
	if err != nil {
		return nil, err
	}
	api, err := startAPI(faults)
	if err != nil {
		return nil, err
	}
	client := openai.NewClient(
		option.WithBaseURL(api.url),
		option.WithAPIKey("none"),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithMaxRetries(0), // outbound retries; the SDK would repeat what may have been billed
	)
	return &chat{client, transport, api}, nil
}

func config(allowDuplicates bool) outbound.Config {
	profile := provider.OpenAI()
	profile.AllowDuplicates = allowDuplicates
	return outbound.Config{
		// A model takes its time, and an answer that is given up is billed all the same.
		AttemptTimeout: time.Minute,
		// Two seconds keep the demo short. A model that thinks before it goes on needs more; the default is a minute.
		IdleTimeout: idleTimeout,
		// Short as well. Where the API says when to come back, that counts.
		Retry:    outbound.RetryPolicy{Backoff: outbound.FullJitter{Base: 50 * time.Millisecond, Cap: time.Second}},
		Provider: profile,
	}
}

func (c *chat) close() {
	c.transport.CloseIdleConnections()
	c.api.close()
}

func question(prompt string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    "demo",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
	}
}

// ask asks for an answer in one piece.
func (c *chat) ask(ctx context.Context, prompt string) ending {
	var resp *http.Response
	completion, err := c.client.Chat.Completions.New(ctx, question(prompt), option.WithResponseInto(&resp))
	e := ending{prompt: prompt, err: err, ledger: c.api.entry(prompt)}
	e.report, _ = outbound.ReportOf(resp, err)
	if err == nil && len(completion.Choices) > 0 {
		e.answer = completion.Choices[0].Message.Content
	}
	return e
}

// stream asks for an answer and shows it as it comes.
func (c *chat) stream(ctx context.Context, w io.Writer, prompt string) ending {
	var resp *http.Response
	chunks := c.client.Chat.Completions.NewStreaming(ctx, question(prompt), option.WithResponseInto(&resp))
	defer chunks.Close()
	var answer strings.Builder
	for chunks.Next() {
		for _, choice := range chunks.Current().Choices {
			answer.WriteString(choice.Delta.Content)
			say(w, "%s", choice.Delta.Content)
		}
	}
	e := ending{prompt: prompt, answer: answer.String(), err: chunks.Err(), ledger: c.api.entry(prompt)}
	e.report, _ = outbound.ReportOf(resp, e.err) // not before all is read: the reply may still break off
	return e
}

// demo plays the four scenes. Each has an API of its own, so that no ledger is mixed up with another.
func demo(ctx context.Context, w io.Writer) (found findings, err error) {
	say(w, "An SDK, openai-go, on outbound, with a chat API on this machine that has a bad day.\n"+
		"That API ignores idempotency keys, as the real ones do: what it is asked twice, it bills twice.\n")

	say(w, "\n1. A streamed answer. At first the API is busy: 429, come back in %d ms.\n", comeBackIn.Milliseconds())
	if found.streamed, err = streamed(ctx, w, aboutPayments, busy); err != nil {
		return found, err
	}
	say(w, "\n2. A streamed answer that goes silent half-way. After %v of silence it is cut.\n", idleTimeout)
	if found.stalled, err = streamed(ctx, w, aboutPrompts, stall); err != nil {
		return found, err
	}
	say(w, "\n3. A batch of %d prompts, %d at a time. Some meet a 429, one a 529, one loses its reply. In the order in which they ended:\n", batchSize, inFlight)
	if found.batch, found.peak, err = batch(ctx, w); err != nil {
		return found, err
	}
	say(w, "\n4. The trade-off: a prompt whose answer is generated, and whose reply is then lost.\n")
	found.lost, found.repeated, err = tradeOff(ctx, w)
	return found, err
}

func streamed(ctx context.Context, w io.Writer, prompt string, f fault) (ending, error) {
	c, err := newChat(map[string][]fault{prompt: {f}}, false)
	if err != nil {
		return ending{}, err
	}
	defer c.close()
	say(w, "   > %s\n   ", prompt)
	e := c.stream(ctx, w, prompt)
	if e.err != nil {
		say(w, "...\n   Cut (%v): the answer is not whole, and is not passed off as one.", e.err)
	}
	say(w, "\n   %s; replies: %s; waited: %s; billed %s\n",
		e.report.Outcome, replies(e.report), waited(e.report), times(e.ledger.billed))
	return e, nil
}

// batchFaults is what the tickets meet that are not answered at once.
var batchFaults = map[string][]fault{
	ticket(2):  {busy},
	ticket(3):  {busy},
	ticket(6):  {overloaded},
	ticket(9):  {busy, busy},
	ticket(13): {loseReply},
	ticket(17): {busy},
}

func ticket(n int) string { return fmt.Sprintf("Summarise ticket %d", n) }

func batch(ctx context.Context, w io.Writer) (all []ending, peak int, err error) {
	c, err := newChat(batchFaults, false)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	header(w, "")
	tally := map[outbound.Outcome]int{}
	for e := range c.askAll(ctx) {
		row(w, e.prompt, e, "")
		all = append(all, e)
		tally[e.report.Outcome]++
	}
	say(w, "   %d succeeded, %d rejected, %d not sent, %d unknown. An unknown one may have been generated or not: nothing\n"+
		"   proves either. It is not asked again, so that it is not billed again.\n",
		tally[outbound.OutcomeSucceeded], tally[outbound.OutcomeRejected], tally[outbound.OutcomeNotSent],
		tally[outbound.OutcomeUnknown])
	return all, c.api.mostInFlight(), nil
}

// askAll asks for the whole batch, and sends the endings as they come.
//
// The limit is the batch's own, so many workers, and not Config.Bulkhead. A bulkhead is for callers that know nothing of
// each other, and a call that waits in it has begun: its total timeout runs, and past MaxWait it is refused. A prompt
// that waits for a worker has not begun, and waits for as long as the batch takes.
func (c *chat) askAll(ctx context.Context) <-chan ending {
	prompts, endings := make(chan string), make(chan ending)
	var workers sync.WaitGroup
	for range inFlight {
		workers.Go(func() {
			for prompt := range prompts {
				endings <- c.ask(ctx, prompt)
			}
		})
	}
	go func() {
		for n := range batchSize {
			prompts <- ticket(n + 1)
		}
		close(prompts)
		workers.Wait()
		close(endings)
	}()
	return endings
}

// tradeOff loses the same reply twice: once by default, once where duplicates are allowed.
func tradeOff(ctx context.Context, w io.Writer) (lost, repeated ending, err error) {
	header(w, "what you have then")
	if lost, err = loseOne(ctx, false); err != nil {
		return lost, repeated, err
	}
	row(w, "by default", lost, lost.bargain())
	if repeated, err = loseOne(ctx, true); err != nil {
		return lost, repeated, err
	}
	row(w, "AllowDuplicates", repeated, repeated.bargain())
	say(w, "   By default you pay once at most, and may be left without the answer. With Provider.AllowDuplicates it is\n"+
		"   asked again, and you may pay for it again. Which is better is not for a library to say.\n")
	return lost, repeated, nil
}

func loseOne(ctx context.Context, allowDuplicates bool) (ending, error) {
	c, err := newChat(map[string][]fault{aboutPrompts: {loseReply}}, allowDuplicates)
	if err != nil {
		return ending{}, err
	}
	defer c.close()
	return c.ask(ctx, aboutPrompts), nil
}

func header(w io.Writer, more string) {
	line(w, "", "outcome", "attempts", "waited", "billed", "replies", more)
}

func row(w io.Writer, name string, e ending, more string) {
	r := e.report
	line(w, name, r.Outcome.String(), strconv.Itoa(len(r.Attempts)), waited(r), strconv.Itoa(e.ledger.billed), replies(r), more)
}

func line(w io.Writer, name, outcome, attempts, waited, billed, replies, more string) {
	text := fmt.Sprintf("%-20s %-10s %8s %7s %7s   %-12s  %s", name, outcome, attempts, waited, billed, replies, more)
	say(w, "   %s\n", strings.TrimRight(text, " "))
}

// replies lists what came of each attempt.
func replies(r outbound.Report) string {
	var all []string
	for _, a := range r.Attempts {
		if a.Status == 0 {
			all = append(all, "none")
			continue
		}
		all = append(all, strconv.Itoa(a.Status))
	}
	return strings.Join(all, ", ")
}

// waited is how long was waited between the attempts.
func waited(r outbound.Report) string {
	var sum time.Duration
	for _, a := range r.Attempts {
		sum += a.Wait
	}
	if sum == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f s", sum.Seconds())
}

// times is n in words.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.Itoa(n) + " times"
}

func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
