package main

import (
	"fmt"
	"io"
	"os"
)

// display is where the command writes, and whether that is a terminal, on which a line can be written over.
type display struct {
	w    io.Writer
	live bool
}

// isTerminal reports whether somebody may be watching. It takes /dev/null for a terminal, too, where it does no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress tells how far the command is: on a terminal in the same line, elsewhere in one of its own.
func (d display) progress(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if d.live {
		_, _ = fmt.Fprintf(d.w, "\r\x1b[K%s", text)
		return
	}
	_, _ = fmt.Fprintln(d.w, text)
}

// endLine leaves the line of the progress.
func (d display) endLine() { _, _ = fmt.Fprintln(d.w) }
