package journal

import "sync"

// flying are the calls that have begun and not ended.
type flying struct {
	mu  sync.Mutex // of its own: it is held while nothing is written
	all map[string]*Entry
	// spare are entries of calls that have ended, for the next ones.
	spare []*Entry
}

// maxSpare bounds the entries that are kept for the next calls.
const maxSpare = 256

// begin notes a call that has begun.
func (f *flying) begin(e *Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var own *Entry
	if last := len(f.spare) - 1; last >= 0 {
		own, f.spare = f.spare[last], f.spare[:last]
	} else {
		own = new(Entry)
	}
	*own = *e
	f.all[e.ID] = own
}

// end forgets a call, if it is there.
func (f *flying) end(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	own := f.all[id]
	if own == nil {
		return
	}
	delete(f.all, id)
	*own = Entry{}
	if len(f.spare) < maxSpare {
		f.spare = append(f.spare, own)
	}
}
