package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

const (
	// queueMemory is how much a call's messages may hold in memory before they go
	// to a file.
	queueMemory = 4 << 20
	// messageCost is what a message in memory costs beside its text.
	messageCost = 256
	// fileCost is what a message with a file of its own counts as: 16 of them fill
	// the memory, so that no flood of them takes the host's descriptors.
	fileCost = queueMemory / 16
	// spoolMax is the most that one call's messages may take on disk. A server that
	// sends more before its caller has read it loses what is over.
	spoolMax = 1 << 30
)

var errSpoolFull = errors.New("the caller reads too slowly for what the server sends")

// queue holds, in order, what has arrived for one call and was not taken yet.
// The link's reader puts, the call's own goroutine takes; neither waits for the
// other. What does not fit in memory goes to an unlinked file.
type queue struct {
	// wake has room for one signal, sent after each put.
	wake chan struct{}

	mu    sync.Mutex
	mem   []*rpc.Message
	head  int
	held  int64
	spool *spool // not nil while it holds something; later messages go there too
	// answer or lost is what comes after everything else; ended says that it is set.
	answer *rpc.Message
	lost   *Lost
	ended  bool
	closed bool
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// put adds a message, which the queue owns from then on. An error means that it
// was dropped.
func (q *queue) put(m *rpc.Message, dir string) error {
	cost := m.Size() + messageCost
	if m.Size() > rpc.SpoolOver {
		cost = fileCost
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return closed(m)
	}
	if q.spool == nil && q.held+cost <= queueMemory {
		q.mem = append(q.mem, m)
		q.held += cost
		q.mu.Unlock()
		q.signal()
		return nil
	}
	if q.spool == nil {
		q.spool = &spool{dir: dir}
	}
	s := q.spool
	s.busy = true
	q.mu.Unlock()

	// The write is done without the lock: the caller may take what is before it.
	n, err := s.write(m)
	err = errors.Join(err, closed(m))

	q.mu.Lock()
	s.busy = false
	s.end += n
	if q.closed || s.start == s.end {
		s.close()
		q.spool = nil
	}
	q.mu.Unlock()
	q.signal()
	return err
}

// closed frees a message that nobody will read.
func closed(m *rpc.Message) error {
	if m == nil {
		return nil
	}
	return m.Close()
}

// finish sets what the call ends with. Nothing is put afterwards.
func (q *queue) finish(answer *rpc.Message, lost *Lost) {
	q.mu.Lock()
	if q.closed || q.ended {
		q.mu.Unlock()
		_ = closed(answer)
		return
	}
	q.answer, q.lost, q.ended = answer, lost, true
	q.mu.Unlock()
	q.signal()
}

// taken is what take returns.
type taken struct {
	// message belongs to the call and is no answer; the caller owns it.
	message *rpc.Message
	// ended says that this is the end: answer or lost is set.
	ended  bool
	answer *rpc.Message
	lost   *Lost
}

// take returns what is next; false where nothing is there yet. An error means
// that messages were lost, and says nothing about those after them. Only the
// call's own goroutine calls it.
func (q *queue) take() (taken, bool, error) {
	q.mu.Lock()
	switch {
	case q.head < len(q.mem):
		m := q.mem[q.head]
		q.mem[q.head] = nil
		q.head++
		if m.Size() > rpc.SpoolOver {
			q.held -= fileCost
		} else {
			q.held -= m.Size() + messageCost
		}
		if q.head == len(q.mem) {
			q.mem, q.head = q.mem[:0], 0
		}
		q.mu.Unlock()
		return taken{message: m}, true, nil
	case q.spool != nil && q.spool.start < q.spool.end:
		s := q.spool
		end := s.end
		q.mu.Unlock()
		m, n, err := s.read()
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			n = end - s.start // what cannot be read is lost, and what follows is found again
		}
		s.start += n
		if s.start == s.end && !s.busy {
			s.close()
			q.spool = nil
		}
		return taken{message: m}, err == nil, err
	case q.ended && (q.spool == nil || !q.spool.busy):
		t := taken{ended: true, answer: q.answer, lost: q.lost}
		q.answer = nil
		q.mu.Unlock()
		return t, true, nil
	}
	q.mu.Unlock()
	return taken{}, false, nil
}

// any says whether there is something to take.
func (q *queue) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended || q.head < len(q.mem) || q.spool != nil
}

// answered says whether the end has arrived, which then follows what is there.
func (q *queue) answered() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// close drops what is there and all that will be put.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, m := range q.mem[q.head:] {
		_ = m.Close()
	}
	_ = closed(q.answer)
	q.mem, q.head, q.answer = nil, 0, nil
	if q.spool != nil && !q.spool.busy {
		q.spool.close()
		q.spool = nil
	}
}

// spool is a file of messages, each after its length in 8 bytes. The reader
// writes at end, the caller reads at start; the queue's lock guards both numbers.
type spool struct {
	dir        string
	file       *os.File
	start, end int64
	busy       bool // the reader is writing
}

// write appends a message at end and returns what it took.
func (s *spool) write(m *rpc.Message) (int64, error) {
	if s.end-s.start+m.Size() > spoolMax {
		return 0, errSpoolFull
	}
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "call-*")
		if err != nil {
			return 0, fmt.Errorf("spool of a call: %w", err)
		}
		s.file = file
		if err := os.Remove(file.Name()); err != nil {
			return 0, fmt.Errorf("spool of a call: %w", err)
		}
	}
	out := io.NewOffsetWriter(s.file, s.end)
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(m.Size()))
	if _, err := out.Write(size[:]); err != nil {
		return 0, fmt.Errorf("spool of a call: %w", err)
	}
	n, err := m.Payload().WriteTo(out)
	if err != nil {
		return 0, fmt.Errorf("spool of a call: %w", err)
	}
	return 8 + n, nil
}

// read returns the message at start and what it took.
func (s *spool) read() (*rpc.Message, int64, error) {
	var head [8]byte
	if _, err := s.file.ReadAt(head[:], s.start); err != nil {
		return nil, 0, fmt.Errorf("spool of a call: %w", err)
	}
	size := int64(binary.LittleEndian.Uint64(head[:]))
	text := io.NewSectionReader(s.file, s.start+8, size)
	asm := rpc.NewAssembler(rpc.FromServer, s.dir, 0)
	if _, err := io.Copy(asm, text); err != nil {
		asm.Abort()
		return nil, 0, fmt.Errorf("spool of a call: %w", err)
	}
	m, err := asm.Finish()
	if err != nil {
		return nil, 0, fmt.Errorf("spool of a call: %w", err)
	}
	return m, 8 + size, nil
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close() // unlinked: nothing in it is wanted any more
	}
}
