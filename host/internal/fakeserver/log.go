package fakeserver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// What happened, in Entry.Dir.
const (
	DirStart  = "start"  // the process runs; Raw holds its arguments
	DirIn     = "in"     // one line, or one POST body, as it came
	DirEOF    = "eof"    // standard input ended
	DirSignal = "signal" // a signal came; Raw is its name
	DirNote   = "note"   // something a test may ask for; Raw says what
	DirChild  = "child"  // a child process runs; Raw is its kind
	DirListen = "listen" // HTTP is up; Raw is the URL
	DirHTTP   = "http"   // an HTTP request; Raw is "METHOD PATH", Header its headers
)

// Entry is one line of the log. Every entry says which process wrote it, so
// that restarts may share one file.
type Entry struct {
	T   time.Time `json:"t"`
	Dir string    `json:"dir"`
	// Pid is the process's own view: inside a PID namespace it means nothing
	// outside. Start is its start time in clock ticks since boot (Linux), Nonce
	// is random: "the same process" is the same nonce.
	Pid   int    `json:"pid"`
	Start string `json:"start,omitempty"`
	Nonce string `json:"nonce"`
	// Raw is the line without its newline, or what Dir says.
	Raw    string      `json:"raw,omitempty"`
	Header http.Header `json:"header,omitempty"`
}

// logger appends entries; each is one write, so that processes may share a file.
type logger struct {
	mu    sync.Mutex
	file  *os.File
	pid   int
	start string
	nonce string
}

func newLogger(path string) (*logger, error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	l := &logger{pid: os.Getpid(), start: startTicks(), nonce: hex.EncodeToString(random[:])}
	if path == "" {
		return l, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

func (l *logger) add(dir, raw string) { l.addHeader(dir, raw, nil) }

func (l *logger) addHeader(dir, raw string, header http.Header) {
	if l.file == nil {
		return
	}
	line, err := json.Marshal(Entry{
		T: time.Now(), Dir: dir, Pid: l.pid, Start: l.start, Nonce: l.nonce, Raw: raw, Header: header,
	})
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(append(line, '\n'))
}

// startTicks reads field 22 of /proc/self/stat; empty where there is none.
func startTicks() string {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return ""
	}
	// The command name may hold spaces and parentheses; fields count from its end.
	after := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
