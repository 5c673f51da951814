package provider

import (
	"bytes"
	"fmt"
)

// FramingError says which rule of the stream a frame broke. Nothing of such a
// frame is passed on, and the stream it came on ends.
type FramingError struct {
	// Seq is the message's ordinal where the frame has one, else 0.
	Seq    uint64
	Reason string
}

func (e *FramingError) Error() string {
	if e.Seq == 0 {
		return "broken frame: " + e.Reason
	}
	return fmt.Sprintf("broken frame of message %d: %s", e.Seq, e.Reason)
}

// Unwrap makes every FramingError an ErrContract.
func (e *FramingError) Unwrap() error { return ErrContract }

// framing checks the chunks of one direction of a stream. The zero value stands
// before the first message.
type framing struct {
	seq  uint64 // the ordinal of the last message that began
	open bool   // chunks of message seq came, its last did not
	size int64  // bytes of the open message
}

// frame checks a frame from the host: messages are numbered 1, 2, 3 …, and one
// begins only when the one before it is whole.
func (f *framing) frame(in Frame) error {
	want := f.seq
	if !f.open {
		want++
	}
	if in.Seq != want {
		if f.open {
			return &FramingError{Seq: in.Seq, Reason: fmt.Sprintf("message %d is not whole yet", f.seq)}
		}
		return &FramingError{Seq: in.Seq, Reason: fmt.Sprintf("expected message %d", want)}
	}
	if err := f.chunk(in.Data, in.Last); err != nil {
		err.Seq = in.Seq
		return err
	}
	f.seq = in.Seq
	return nil
}

// event checks an event from the plugin.
func (f *framing) event(in Event) error {
	switch e := in.(type) {
	case Chunk:
		if err := f.chunk(e.Data, e.Last); err != nil {
			return err
		}
	case Noise, TooLarge:
		// What was sent of the line is to be dropped.
		f.open, f.size = false, 0
	}
	return nil
}

// chunk holds for both directions. A chunk may be empty, a message may not.
func (f *framing) chunk(data []byte, last bool) *FramingError {
	if len(data) > MaxChunk {
		return &FramingError{Reason: fmt.Sprintf("chunk of %d bytes, at most %d", len(data), MaxChunk)}
	}
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return &FramingError{Reason: fmt.Sprintf("LF at byte %d of a chunk", i)}
	}
	if i := bytes.IndexByte(data, '\r'); i >= 0 {
		return &FramingError{Reason: fmt.Sprintf("CR at byte %d of a chunk", i)}
	}
	size := f.size + int64(len(data))
	if !last {
		f.open, f.size = true, size
		return nil
	}
	if size == 0 {
		return &FramingError{Reason: "empty message"}
	}
	f.open, f.size = false, 0
	return nil
}
