// Package redact removes secret values from text on its way to a sink: logs,
// crash reports, errors. One Redactor serves a host; values are added as configs
// are decoded. It does not find secrets, it removes the ones it was told.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/url"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// Redactor removes known values. The zero value knows none. It is safe for
// concurrent use; Text takes no lock.
type Redactor struct {
	mu       sync.Mutex
	values   map[string]struct{}
	replacer atomic.Pointer[strings.Replacer]
}

// minLine is the length from which a line of a value counts by itself: below it, it
// may be a common word.
const minLine = 8

// Add makes values known, each in plain, JSON-escaped, URL-encoded and base64
// form; of one with several lines, such as a private key, each line too, for logs
// are read by the line. Empty values are ignored.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = make(map[string]struct{})
	}
	for _, v := range values {
		if v != "" {
			r.know(v)
			for line := range strings.Lines(v) {
				if line = strings.TrimSpace(line); len(line) >= minLine {
					r.know(line)
				}
			}
		}
	}
	// The longest first: a secret that begins another must not leave its rest.
	all := make([]string, 0, len(r.values))
	for v := range r.values {
		all = append(all, v)
	}
	sort.Slice(all, func(i, j int) bool {
		if len(all[i]) != len(all[j]) {
			return len(all[i]) > len(all[j])
		}
		return all[i] < all[j]
	})
	pairs := make([]string, 0, 2*len(all))
	for _, v := range all {
		pairs = append(pairs, v, Mark)
	}
	r.replacer.Store(strings.NewReplacer(pairs...))
}

// know adds the forms of one value. The lock is held.
func (r *Redactor) know(v string) {
	for _, form := range forms(v) {
		r.values[form] = struct{}{}
	}
}

// Text returns s without the known values.
func (r *Redactor) Text(s string) string {
	if rep := r.replacer.Load(); rep != nil {
		return rep.Replace(s)
	}
	return s
}

func forms(v string) []string {
	return []string{
		v,
		escaped(v, true),
		escaped(v, false),
		url.QueryEscape(v),
		url.PathEscape(v),
		base64.StdEncoding.EncodeToString([]byte(v)),
		base64.RawStdEncoding.EncodeToString([]byte(v)),
		base64.URLEncoding.EncodeToString([]byte(v)),
		base64.RawURLEncoding.EncodeToString([]byte(v)),
	}
}

// escaped is v as it stands inside a JSON string, with or without the escapes
// for HTML that Go's encoder adds.
func escaped(v string, html bool) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(v); err != nil {
		return v // a string always encodes
	}
	quoted := strings.TrimSuffix(b.String(), "\n")
	return quoted[1 : len(quoted)-1]
}

// Writer returns a writer that passes on each Write without the known values. A
// value that is split over two writes is not found, so whoever writes, writes
// whole lines.
func Writer(w io.Writer, r *Redactor) io.Writer { return writer{w, r} }

type writer struct {
	w io.Writer
	r *Redactor
}

func (w writer) Write(p []byte) (int, error) {
	if w.r.replacer.Load() == nil {
		return w.w.Write(p)
	}
	if _, err := io.WriteString(w.w, w.r.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
