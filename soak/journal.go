package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/outbound-go/outbound"
)

// record is one line of a journal: an order with its action, before its first byte leaves, or that an order is paid.
type record struct {
	Order  string           `json:"order"`
	Amount int              `json:"amount,omitempty"`
	Action *outbound.Action `json:"action,omitempty"` // nil: the order is paid
	Life   int              `json:"life"`             // which process wrote it, from 1
}

// journal is a file that is only appended to. What append returned for is on the disk. Safe for concurrent use.
type journal struct {
	mu sync.Mutex
	f  *os.File
}

// openJournal opens a journal that a process may have been killed over: a line without an end was never finished, so
// nothing was sent on its account, and it goes.
func openJournal(path string) (*journal, []record, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	records, err := cutTornLine(f, path)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return &journal{f: f}, records, nil
}

func cutTornLine(f *os.File, path string) ([]record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	if err := f.Truncate(int64(len(whole))); err != nil {
		return nil, err
	}
	return parseJournal(whole)
}

// readJournal reads a journal and leaves it as it is.
func readJournal(path string) ([]record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseJournal(data[:bytes.LastIndexByte(data, '\n')+1])
}

func parseJournal(data []byte) (records []record, err error) {
	for line := range bytes.Lines(data) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d of the journal: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// append writes a record and returns when the disk has it. A kill alone would not need the sync, a power failure would.
func (j *journal) append(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(append(line, '\n')); err != nil {
		return err
	}
	return j.f.Sync()
}

func (j *journal) close() { _ = j.f.Close() }

// history is what a journal says.
type history struct {
	orders  []record // with their actions, in order
	paid    map[string]int
	unpaid  []record
	resumed int // orders that another process paid than the one that stored them
}

func read(records []record) history {
	h := history{paid: map[string]int{}}
	for _, r := range records {
		if r.Action == nil {
			h.paid[r.Order] = r.Life
			continue
		}
		h.orders = append(h.orders, r)
	}
	for _, o := range h.orders {
		life, paid := h.paid[o.Order]
		switch {
		case !paid:
			h.unpaid = append(h.unpaid, o)
		case life != o.Life:
			h.resumed++
		}
	}
	return h
}
