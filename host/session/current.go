package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// How lists are read again while a server goes on saying that they have changed.
const (
	// paceAfter is how many re-reads in a row are done at once; paceFirst is the
	// pause before the next one, which doubles up to paceMax. A server that loads
	// its tools one by one is followed closely, and a storm costs a read a second.
	paceAfter = 3
	paceFirst = 50 * time.Millisecond
	paceMax   = time.Second
	// paceNoise is the longest pause for a server that says so after each list and
	// lists the same.
	paceNoise = 30 * time.Second
	// calm is how long nothing is said before a change counts as the first in a row.
	calm = time.Second
	// wolf is how many lists in a row may be equal, for all the changes that were
	// announced, until announcements are taken for noise.
	wolf = 3
)

// freshness is what an instance knows of how current its list in the catalog is.
//
// The reader writes changes and epoch, the lister all of them, and a call reads
// them without a lock. The order of each side's steps is what makes that right: a
// call takes the epoch first, so that whatever happens after shows in it.
type freshness struct {
	// epoch is odd while a list is being handed over.
	epoch atomic.Uint64
	// changes counts the list_changed that were read.
	changes atomic.Uint64
	last    atomic.Pointer[listing]
	// listening says that a modern server has acknowledged a subscription which is
	// still open.
	listening atomic.Bool

	mu sync.Mutex
	// under is the attempt that runs, next the one that somebody waits for already.
	under, next *attempt
}

// listing is a complete list that the Listener has.
type listing struct {
	asked  time.Time // when its first page was asked for
	covers uint64    // the changes that were read before
	sum    [sha256.Size]byte
	// same counts the lists before it, in a row, that were equal to it and were read
	// because of changes.
	same int
}

// attempt is one reading of a list, for all who wait for it.
type attempt struct {
	asked  time.Time
	covers uint64
	done   chan struct{} // closed when it has ended; err is set
	err    error
}

// Current returns when the tools that the Listener has of this instance are what
// the server lists, asked for no earlier than age ago (any time, if age is below
// zero) and with no list_changed read since. Where they are not, the list is read
// again, once for all who wait. The epoch is that of the list: as long as Epoch
// gives the same, the list is that one and the server has announced no change.
//
// The error is ctx's, or says why the list could not be read. A server that
// announces a change after each of its lists, and lists the same, is held to what
// it lists.
func (i *Instance) Current(ctx context.Context, age time.Duration) (epoch uint64, err error) {
	var oldest time.Time
	if age >= 0 {
		oldest = time.Now().Add(-age)
	}
	known := i.list.changes.Load()
	for {
		if epoch, ok := i.list.current(oldest, known); ok {
			return epoch, nil
		}
		a := i.list.ask(oldest)
		wake(i.relist)
		select {
		case <-a.done:
			if a.err != nil {
				return 0, i.withoutSecrets(a.err)
			}
		case <-i.link.done:
			return 0, errServerEnded
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Epoch changes when the server announces a change of its tools, and when another
// list is handed to the Listener.
func (i *Instance) Epoch() uint64 { return i.list.epoch.Load() }

// Announces says whether the server says by itself when its tools change: it
// declares so, and, where it belongs to the modern era, its subscription is open.
func (i *Instance) Announces() bool {
	if !i.server.Declares("tools", "listChanged") {
		return false
	}
	return i.server.Era == Legacy || i.list.listening.Load()
}

// changed marks the list as suspect. It runs on the reader, so that nothing which
// the server says later is handed on before.
func (i *Instance) changed() {
	i.list.changes.Add(1)
	if l := i.list.last.Load(); l == nil || l.same < wolf {
		i.list.epoch.Add(2)
	}
	wake(i.relist)
}

// current says whether the last list will do for who arrived when known changes
// had been read and wants it asked for no earlier than oldest.
func (f *freshness) current(oldest time.Time, known uint64) (epoch uint64, ok bool) {
	epoch = f.epoch.Load()
	l := f.last.Load()
	if epoch%2 == 1 || l == nil || l.asked.Before(oldest) {
		return 0, false
	}
	return epoch, l.covers == f.changes.Load() || l.same >= wolf && l.covers >= known
}

// suspect says whether changes were announced since the last list was asked for.
func (f *freshness) suspect() bool {
	l := f.last.Load()
	return l == nil || l.covers != f.changes.Load()
}

// ask returns the attempt to wait for: the one that runs, if it began late enough,
// or the one after it.
func (f *freshness) ask(oldest time.Time) *attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.under; a != nil && !a.asked.Before(oldest) && a.covers == f.changes.Load() {
		return a
	}
	if f.next == nil {
		f.next = &attempt{done: make(chan struct{})}
	}
	return f.next
}

// begin takes the attempt that is waited for, or a new one.
func (f *freshness) begin() *attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.next
	if a == nil {
		a = &attempt{done: make(chan struct{})}
	}
	a.covers, a.asked = f.changes.Load(), time.Now()
	f.under, f.next = a, nil
	return a
}

// end tells those who wait how an attempt went.
func (f *freshness) end(a *attempt, err error) {
	f.mu.Lock()
	f.under, a.err = nil, err
	f.mu.Unlock()
	close(a.done)
}

// awaited says whether somebody waits for the next attempt.
func (f *freshness) awaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next != nil
}

// hand gives a complete list to the Listener, unless it has that one already: then
// what was decided by it stands. inRow says that it was read because of one change
// more in a row.
func (i *Instance) hand(a *attempt, defs []json.RawMessage, inRow bool) {
	l := &listing{asked: a.asked, covers: a.covers, sum: sumOf(defs)}
	if before := i.list.last.Load(); before != nil && before.sum == l.sum {
		if inRow {
			l.same = before.same + 1
		}
		i.list.last.Store(l)
		return
	}
	// A call that saw the epoch before the list sees another one afterwards, and none
	// gets an epoch in between.
	i.list.epoch.Add(1)
	i.listener.Tools(i.spec.Provider, i.Mark(), defs)
	i.list.last.Store(l)
	i.list.epoch.Add(1)
}

func sumOf(defs []json.RawMessage) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, d := range defs {
		_, _ = h.Write(d) // a hash takes everything
		_, _ = h.Write([]byte{'\n'})
	}
	h.Sum(sum[:0])
	return sum
}

// keepList reads the list again when it is suspect or waited for, until the
// stream ends.
func (i *Instance) keepList() {
	var (
		row   int // re-reads in a row because of changes
		ended time.Time
	)
	for {
		select {
		case <-i.relist:
		case <-i.link.done:
			return
		}
		suspect := i.list.suspect()
		switch {
		case !suspect && !i.list.awaited():
			continue // another attempt has seen to it
		case suspect && time.Since(ended) > calm:
			row = 0
		}
		if suspect {
			row++
			if !i.breathe(row) {
				return
			}
		}
		i.reread(suspect && row > 1)
		ended = time.Now()
		if i.list.awaited() { // by one whose signal the re-read has taken
			wake(i.relist)
		}
	}
}

// breathe makes the pause before a re-read, the n-th in a row; false where the
// stream has ended.
func (i *Instance) breathe(n int) bool {
	if n <= paceAfter {
		return !i.link.ended()
	}
	most := paceMax
	l := i.list.last.Load()
	noise := l != nil && l.same >= wolf
	if noise {
		most = paceNoise
	}
	timer := time.NewTimer(min(paceFirst<<min(n-paceAfter-1, 20), most))
	defer timer.Stop()
	for {
		if noise && i.list.awaited() {
			return true // they ask for one list, and will be content with it
		}
		select {
		case <-timer.C:
			return true
		case <-i.relist:
		case <-i.link.done:
			return false
		}
	}
}

// pause waits; false where the stream has ended.
func (i *Instance) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-i.link.done:
		return false
	}
}

// reread reads the list once, and, if that fails after a change, again and again
// for as long as a start may take. Then it stays suspect, and who needs it asks.
func (i *Instance) reread(inRow bool) {
	ctx, cancel := context.WithTimeout(context.Background(), i.spec.startTimeout())
	defer cancel()
	for {
		a := i.list.begin()
		defs, err := i.listTools(ctx, i.spec.CallTimeout)
		if err == nil {
			i.hand(a, defs, inRow)
		}
		i.list.end(a, err)
		if err == nil || i.link.ended() {
			return
		}
		i.log.Warn("tools/list failed; the old list stays", "suspect", i.list.suspect(), "error", err)
		if !i.list.suspect() {
			return
		}
		again := time.NewTimer(i.spec.listPause())
		select {
		case <-again.C:
		case <-i.relist: // somebody asks
		case <-i.link.done:
		case <-ctx.Done():
		}
		again.Stop()
		if ctx.Err() != nil || i.link.ended() {
			return
		}
	}
}
