package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// display is where the demo writes, and whether that is a terminal, on which a line can be written over.
type display struct {
	w    io.Writer
	live bool
}

// isTerminal reports whether somebody may be watching. It takes /dev/null for a terminal, too, where it does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress tells how far a client is. It is safe for concurrent use.
type progress struct {
	display
	name  string
	total int
	start time.Time

	mu    sync.Mutex
	done  int
	shown time.Time
}

func (d display) progress(name string, total int) *progress {
	p := &progress{display: d, name: name, total: total, start: time.Now()}
	if d.live {
		p.drawBar()
	}
	return p
}

// elapsed is how long it has been since the start.
func (p *progress) elapsed() time.Duration { return time.Since(p.start) }

// step counts one more payment: on a terminal the line is redrawn at most twenty times a second, elsewhere there is a
// line for every tenth.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	last := p.done == p.total
	switch {
	case p.live && (last || time.Since(p.shown) >= 50*time.Millisecond):
		p.drawBar()
	case !p.live && p.done*10/p.total > (p.done-1)*10/p.total:
		p.say("  %-12s  %4d of %d payments, %s\n", p.name, p.done, p.total, seconds(p.elapsed()))
	}
	if p.live && last {
		p.say("\n")
	}
}

// drawBar writes over the line.
func (p *progress) drawBar() {
	const width = 30
	full := p.done * width / p.total
	bar := strings.Repeat("#", full) + strings.Repeat(".", width-full)
	p.say("\r  %-12s  [%s]  %4d of %d payments, %s ", p.name, bar, p.done, p.total, seconds(p.elapsed()))
	p.shown = time.Now()
}

func (p *progress) say(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format, args...) }

// seconds formats a time as 12.3 s.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
