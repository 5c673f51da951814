package journal

import (
	"bytes"
	"errors"
	"io"
)

// maxLine is more than any line has, in bytes: all its strings at their bounds, each
// byte escaped. What has no end after twice as many is no line.
const maxLine = 64 << 10

// damage is a stretch of a file that holds no line.
type damage struct {
	// at is its offset, size its length, in bytes.
	at, size int64
	why      error
}

// seen takes what a file holds, in order; line with the offset of the line.
type seen struct {
	line   func(at int64, r record) error
	damage func(damage) error
}

// readLines reads lines from r, whose first byte stands at an offset of its file.
// What is cut or damaged costs itself alone: also where the end of a line is among
// it, the lines on both sides are found. It returns the offset behind the last line
// that has an end, and how much stands after it. An error is r's or that of s.
func readLines(r io.Reader, at int64, s seen) (next, rest int64, err error) {
	buf := make([]byte, 0, 2*maxLine)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return at, int64(len(buf)), err
		}
		used := 0
		for {
			end := bytes.IndexByte(buf[used:], '\n')
			if end < 0 {
				break
			}
			if err := readLine(buf[used:used+end], at, s); err != nil {
				return at, int64(len(buf) - used), err
			}
			used, at = used+end+1, at+int64(end)+1
		}
		if used == 0 && len(buf) == cap(buf) { // no line is so long
			used = len(buf) / 2
			if err := s.damage(damage{at, int64(used), errChecksum}); err != nil {
				return at, int64(len(buf)), err
			}
			at += int64(used)
		}
		buf = buf[:copy(buf, buf[used:])]
		if err == nil {
			continue
		}
		used, err = salvage(buf, at, s) // a line may be whole but for its end
		return at + int64(used), int64(len(buf) - used), err
	}
}

// readLine reads what stands between two line ends.
func readLine(p []byte, at int64, s seen) error {
	if len(p) == 0 {
		return nil
	}
	r, err := parseLine(p)
	if err == nil {
		return s.line(at, r)
	}
	if errors.Is(err, errContent) {
		return s.damage(damage{at, int64(len(p)), err})
	}
	used, err := salvage(p, at, s)
	if err != nil || len(p)-used < 2 { // an end of line that became another byte
		return err
	}
	return s.damage(damage{at + int64(used), int64(len(p) - used), errChecksum})
}

// salvage finds the lines within a stretch that is none: their checksums tell. It
// returns how much of the stretch it has dealt with, up to the last line's end.
func salvage(p []byte, at int64, s seen) (used int, err error) {
	for end := 0; ; {
		i := bytes.Index(p[end:], []byte(crcHead))
		if i < 0 || end+i+crcSize > len(p) {
			return used, nil
		}
		end += i + len(crcHead)
		whole := end - len(crcHead) + crcSize
		start, r, ok := startOf(p[used:whole])
		if !ok {
			continue
		}
		if start >= 2 {
			if err := s.damage(damage{at + int64(used), int64(start), errChecksum}); err != nil {
				return used, err
			}
		}
		if err := s.line(at+int64(used+start), r); err != nil {
			return used, err
		}
		used, end = whole, whole
	}
}

// startOf finds where a line begins that ends with p. A line has few places where
// one could begin, so the search goes on for as many as two lines have.
func startOf(p []byte) (int, record, bool) {
	const most = 8
	if over := len(p) - maxLine; over > 0 {
		at, r, ok := startOf(p[over:])
		return over + at, r, ok
	}
	at := len(p)
	for range most {
		if at = bytes.LastIndex(p[:at], []byte(`{"`)); at < 0 {
			break
		}
		if r, err := parseLine(p[at:]); err == nil {
			return at, r, true
		}
	}
	return 0, record{}, false
}
