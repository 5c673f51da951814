package redact

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

// Mark stands where a secret was.
const Mark = scrub.Mark

// MinLength is the least length in bytes of a value that is taken out of anything.
const MinLength = scrub.MinLength

// Redactor removes known values. The zero value knows none. It is safe for
// concurrent use; what removes takes no lock.
type Redactor struct {
	mu sync.Mutex
	// values are all that are known, kept those of secret().
	values, kept map[string]struct{}
	// sinks has every form of values, lists every form of kept, results the plain
	// ones.
	sinks, lists, results atomic.Pointer[scrub.Set]
}

// Add makes values known, each in plain, JSON-escaped, URL-encoded and base64
// form. Those shorter than MinLength count for nothing.
func (r *Redactor) Add(values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if insert(&r.values, values) {
		r.sinks.Store(set(r.values, scrub.Forms))
	}
}

// AddSecret is Add for values of secret(), which are taken out of lists and
// results too.
func (r *Redactor) AddSecret(values ...string) {
	r.Add(values...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if insert(&r.kept, values) {
		r.lists.Store(set(r.kept, scrub.Forms))
		r.results.Store(set(r.kept, scrub.Plain))
	}
}

// insert adds values to a set, and says whether that changed it.
func insert(to *map[string]struct{}, values []string) bool {
	if *to == nil {
		*to = make(map[string]struct{})
	}
	before := len(*to)
	for _, v := range values {
		if len(v) >= MinLength {
			(*to)[v] = struct{}{}
		}
	}
	return len(*to) > before
}

func set(values map[string]struct{}, forms func(string) []string) *scrub.Set {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(values)) {
		all = append(all, forms(v)...)
	}
	return scrub.New(all)
}

// Text is a text for a sink: without the known values, and without credentials in
// headers and URLs.
func (r *Redactor) Text(s string) string { return withoutCredentials(r.sinks.Load().Text(s)) }

// Head is Text for a text whose rest was cut off: what may be the beginning of a
// value at its end is left out too.
func (r *Redactor) Head(s string) string { return withoutCredentials(r.sinks.Load().Head(s)) }

// Definition is a definition for a list: without the values of secret(). One that
// holds none is returned as it is.
func (r *Redactor) Definition(raw json.RawMessage) json.RawMessage {
	return scrubJSON(r.lists.Load(), raw)
}

// Results is what is kept out of results, nil where nothing is.
func (r *Redactor) Results() *scrub.Set { return r.results.Load() }

// Writer returns a writer that passes on each Write without secrets. A value that
// is split over two writes is not found, so whoever writes, writes whole lines.
func Writer(w io.Writer, r *Redactor) io.Writer { return writer{w, r} }

type writer struct {
	w io.Writer
	r *Redactor
}

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
