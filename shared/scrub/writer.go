package scrub

import "io"

// Writer passes on what is written to it, in pieces of any size, with Mark in the place
// of each pattern. It holds back no more than may begin one. One goroutine uses it, and
// Close ends the text.
type Writer struct {
	set *Set
	out io.Writer
	at  State
	// held are the bytes that wait for what follows them, the first of which is number
	// base of the text; found is what is to go, in numbers of bytes too.
	held  []byte
	base  int
	found []span
	hit   bool
}

// NewWriter passes on to out what set does not have.
func NewWriter(set *Set, out io.Writer) *Writer { return &Writer{set: set, out: out} }

// Found says whether a pattern was taken out so far.
func (w *Writer) Found() bool { return w.hit }

// Write takes the next piece. The error is that of the writer it goes on to.
func (w *Writer) Write(p []byte) (int, error) {
	if w.set == nil {
		return w.out.Write(p)
	}
	for _, c := range p {
		w.held = append(w.held, c)
		w.at = w.set.Next(w.at, c)
		if n := w.set.Hit(w.at); n > 0 {
			end := w.base + len(w.held)
			w.found = add(w.found, span{end - n, end})
			w.hit = true
		}
	}
	if err := w.settle(len(w.held) - w.set.Depth(w.at)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close passes on what waits. It does not close the writer behind it.
func (w *Writer) Close() error { return w.settle(len(w.held)) }

// settle passes on the first n of the bytes that wait: no pattern that is still to end
// begins there. One that was found may end behind them, and then goes on.
func (w *Writer) settle(n int) error {
	from := 0
	for len(w.found) > 0 && w.found[0].start < w.base+n {
		f := w.found[0]
		if f.start >= w.base { // else its mark is out
			if err := w.pass(w.held[from:f.start-w.base], []byte(Mark)); err != nil {
				return err
			}
		}
		if from = f.end - w.base; from > n {
			from = n
			break
		}
		w.found = w.found[1:]
	}
	if err := w.pass(w.held[from:n]); err != nil {
		return err
	}
	w.held = w.held[:copy(w.held, w.held[n:])]
	w.base += n
	return nil
}

func (w *Writer) pass(pieces ...[]byte) error {
	for _, p := range pieces {
		if len(p) == 0 {
			continue
		}
		if _, err := w.out.Write(p); err != nil {
			return err
		}
	}
	return nil
}
