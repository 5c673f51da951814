package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// fileVersion is that of the format of lines. A reader knows its own and those before.
const fileVersion = 1

// maxText bounds each string in a line, maxArtifacts how many ids. Names come from
// callers and servers, and may be as long as a message.
const (
	maxText      = 256
	maxArtifacts = 64
	cutMark      = "…"
)

// A line is a JSON object with one member that says what it is, and a checksum as
// its last: {"begin":{…},"crc":"0a1b2c3d"}. The checksum is CRC-32C over all bytes
// of the line before `,"crc"`.
const (
	crcHead = `,"crc":"`
	crcTail = `"}`
	crcSize = len(crcHead) + 8 + len(crcTail)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the first line of each file.
type header struct {
	Version int       `json:"version"`
	Host    string    `json:"host"`
	Seq     int       `json:"seq"`
	Time    time.Time `json:"time"`
}

// gap says that refusals could not be written, and how many.
type gap struct {
	Time     time.Time `json:"time"`
	Refusals uint64    `json:"refusals"`
}

// record is a line, read. One of its members is set; none in a line of a kind that
// a newer version writes.
type record struct {
	File   *header     `json:"file"`
	Begin  *begun      `json:"begin"`
	End    *ended      `json:"end"`
	Call   *whole      `json:"call"`
	Gap    *gap        `json:"gap"`
	Settle *Settlement `json:"settle"`
}

// begun is an Entry in a line, ending an End.
type begun struct {
	ID           string    `json:"id"`
	CallID       string    `json:"call_id"`
	Time         time.Time `json:"time"`
	Principal    string    `json:"principal"`
	Project      string    `json:"project"`
	Provider     string    `json:"provider"`
	Generation   int       `json:"generation"`
	Tool         string    `json:"tool"`
	Digest       string    `json:"digest"`
	Instance     string    `json:"instance"`
	Fence        string    `json:"fence"`
	RequestBytes int64     `json:"request_bytes"`
}

type ended struct {
	ID string `json:"id"`
	ending
}

type ending struct {
	Dispatched  bool     `json:"dispatched"`
	Outcome     string   `json:"outcome"`
	Reason      string   `json:"reason"`
	ResultBytes int64    `json:"result_bytes"`
	Artifacts   []string `json:"artifacts"`
	// Ended is when, so that an end whose begin is lost has a time.
	Ended time.Time `json:"ended"`
	// Micros is the duration in microseconds.
	Micros int64 `json:"us"`
}

// whole is both in one line.
type whole struct {
	begun
	ending
}

// line builds one line.
type line struct{ bytes []byte }

var lines = sync.Pool{New: func() any { return &line{bytes: make([]byte, 0, 1024)} }}

func newLine() *line {
	l, ok := lines.Get().(*line)
	if !ok { // the pool has nothing else
		return new(line)
	}
	return l
}

// free gives the line back; its bytes are used again.
func (l *line) free() { lines.Put(l) }

func (l *line) begin(e *Entry) {
	l.bytes = append(l.bytes[:0], `{"begin":{`...)
	l.entry(e)
	l.seal()
}

func (l *line) end(e *Entry, end End) {
	l.bytes = append(l.bytes[:0], `{"end":{"id":`...)
	l.quote(e.ID)
	l.ending(e, end)
	l.seal()
}

func (l *line) call(e *Entry, end End) {
	l.bytes = append(l.bytes[:0], `{"call":{`...)
	l.entry(e)
	l.ending(e, end)
	l.seal()
}

func (l *line) header(h header) { l.rare("file", h) }

func (l *line) gap(g gap) { l.rare("gap", g) }

func (l *line) settle(s Settlement) { l.rare("settle", s) }

// rare is for lines that are not on the way of a call.
func (l *line) rare(kind string, v any) {
	text, err := json.Marshal(v)
	if err != nil { // its types are plain
		text = []byte("{}")
	}
	l.bytes = append(append(append(l.bytes[:0], `{"`...), kind...), `":`...)
	l.bytes = append(l.bytes, text[:len(text)-1]...)
	l.seal()
}

func (l *line) entry(e *Entry) {
	l.bytes = append(l.bytes, `"id":`...)
	l.quote(e.ID)
	l.bytes = append(l.bytes, `,"time":"`...)
	l.bytes = e.Time.UTC().AppendFormat(l.bytes, time.RFC3339Nano)
	l.bytes = append(l.bytes, '"')
	l.text("call_id", e.CallID)
	l.text("principal", e.Principal)
	l.text("project", e.Project)
	l.text("provider", e.Provider)
	l.number("generation", int64(e.Generation))
	l.text("tool", e.Tool)
	l.text("digest", e.Digest)
	l.text("instance", e.Instance)
	l.text("fence", e.Fence)
	l.number("request_bytes", e.RequestBytes)
}

func (l *line) ending(e *Entry, end End) {
	if end.Dispatched {
		l.bytes = append(l.bytes, `,"dispatched":true`...)
	}
	l.text("outcome", end.Outcome)
	l.text("reason", end.Reason)
	l.number("result_bytes", end.ResultBytes)
	if len(end.Artifacts) > 0 {
		l.bytes = append(l.bytes, `,"artifacts":[`...)
		for i, id := range end.Artifacts[:min(len(end.Artifacts), maxArtifacts)] {
			if i > 0 {
				l.bytes = append(l.bytes, ',')
			}
			l.quote(id)
		}
		l.bytes = append(l.bytes, ']')
	}
	l.bytes = append(l.bytes, `,"ended":"`...)
	l.bytes = e.Time.Add(end.Duration).UTC().AppendFormat(l.bytes, time.RFC3339Nano)
	l.bytes = append(l.bytes, '"')
	l.number("us", end.Duration.Microseconds())
}

// text appends a member, unless it is empty.
func (l *line) text(name, value string) {
	if value == "" {
		return
	}
	l.bytes = append(append(append(l.bytes, `,"`...), name...), `":`...)
	l.quote(value)
}

func (l *line) number(name string, value int64) {
	if value == 0 {
		return
	}
	l.bytes = append(append(append(l.bytes, `,"`...), name...), `":`...)
	l.bytes = strconv.AppendInt(l.bytes, value, 10)
}

func (l *line) quote(s string) {
	if len(s) <= maxText && plain(s) { // ids, digests, slugs and most names
		l.bytes = append(append(append(l.bytes, '"'), s...), '"')
		return
	}
	// Bytes that are no UTF-8 have been replaced where there is an error.
	l.bytes, _ = jsontext.AppendQuote(l.bytes, shorten(s))
}

// plain says whether a string stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// seal closes the line's one member and the line.
func (l *line) seal() {
	l.bytes = append(l.bytes, '}')
	sum := crc32.Checksum(l.bytes, castagnoli)
	l.bytes = append(l.bytes, crcHead...)
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		l.bytes = append(l.bytes, digits[sum>>shift&0xf])
	}
	l.bytes = append(l.bytes, crcTail+"\n"...)
}

// shorten bounds a string, and says so at its end.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len(cutMark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + cutMark
}

// What may be wrong with a line.
var (
	errChecksum = errors.New("its checksum is missing or another's: it was cut or damaged")
	errContent  = errors.New("its content is none of the journal's")
)

// parseLine reads a line without its end. Whatever the bytes are, it returns.
func parseLine(p []byte) (record, error) {
	var r record
	n := len(p) - crcSize
	if n < 0 || !bytes.HasPrefix(p[n:], []byte(crcHead)) || !bytes.HasSuffix(p, []byte(crcTail)) {
		return r, errChecksum
	}
	sum, err := strconv.ParseUint(string(p[n+len(crcHead):len(p)-len(crcTail)]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(p[:n], castagnoli) {
		return r, errChecksum
	}
	if err := json.Unmarshal(p, &r); err != nil {
		return record{}, fmt.Errorf("%w: %w", errContent, err)
	}
	return r, r.check()
}

// check says whether a line that is whole can be of a journal.
func (r *record) check() error {
	missing := r.Begin != nil && r.Begin.ID == "" || r.End != nil && r.End.ID == "" ||
		r.Call != nil && r.Call.ID == "" || r.Settle != nil && r.Settle.ID == ""
	if missing {
		return fmt.Errorf("%w: it names no call", errContent)
	}
	return nil
}
