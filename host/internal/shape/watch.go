package shape

import (
	"bytes"
	"log/slog"
	"sync"
)

const (
	// mostTold bounds what is remembered, and told, of one provider: how many
	// definitions.
	mostTold = 256
	// mostListed and mostAnswers bound what waits to be looked at: the bytes of
	// definitions, and how many answers. More is not looked at: a definition is when it
	// is called, an answer not at all.
	mostListed  = 4 << 20
	mostAnswers = 32
	// mostName is the longest name of a tool that is looked at and told.
	mostName = 256
	// mostCompiled bounds the schemas that are kept for the next answer: the cost of
	// all of them.
	mostCompiled = 2 * maxNodes
)

// Watch looks at outputSchemas and at the results that are to fit them, and logs a
// warning where one does not: one for each definition of a provider, whatever comes
// after. Its methods return at once and may be called concurrently.
type Watch struct {
	log *slog.Logger

	mu sync.Mutex
	// told are the digests that a warning was given of, by provider.
	told map[string]map[string]bool
	// listed and answers wait to be looked at, waiting is how many bytes those of
	// listed take. looking says that there is a goroutine that looks; it ends when
	// nothing waits.
	listed, answers []job
	waiting         int
	looking, closed bool
	ended           sync.WaitGroup

	// compiled are schemas by digest, nil for one that nothing can be held against;
	// size is what they cost. They are the goroutine's.
	compiled map[string]*Schema
	size     int
}

// job is a definition that is new, or an answer to a call of one.
type job struct {
	provider, tool, digest string
	schema, value          []byte
}

// size is about how many bytes a definition takes while it waits.
func (j job) size() int { return 128 + len(j.tool) + len(j.digest) + len(j.schema) }

// NewWatch returns a Watch that warns in log.
func NewWatch(log *slog.Logger) *Watch {
	return &Watch{log: log, told: map[string]map[string]bool{}, compiled: map[string]*Schema{}}
}

// Listed looks at the outputSchema of a definition. It keeps nothing of it.
func (w *Watch) Listed(provider, tool, digest string, schema []byte) {
	if len(schema) > MaxSchema || len(tool) > mostName {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j := job{provider: provider, tool: tool, digest: digest, schema: schema}
	if w.closed || w.waiting+j.size() > mostListed || w.knows(j) {
		return
	}
	j.schema = bytes.Clone(schema) // which may be a small piece of a large list
	w.waiting += j.size()
	w.listed = append(w.listed, j)
	w.start()
}

// Answered looks at the structuredContent of an answer to a call of a definition, whose
// outputSchema must not change any more. It keeps nothing of value.
func (w *Watch) Answered(provider, tool, digest string, schema, value []byte) {
	if len(schema) > MaxSchema || len(value) > MaxValue || len(tool) > mostName {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	j := job{provider: provider, tool: tool, digest: digest, schema: schema}
	if w.closed || len(w.answers) >= mostAnswers || w.knows(j) {
		return
	}
	j.value = bytes.Clone(value)
	w.answers = append(w.answers, j)
	w.start()
}

// Close drops what waits, and returns when nothing is looked at any more.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed, w.listed, w.answers = true, nil, nil
	w.mu.Unlock()
	w.ended.Wait()
}

// start has somebody look. The mutex is held.
func (w *Watch) start() {
	if !w.looking {
		w.looking = true
		w.ended.Go(w.look)
	}
}

// knows says whether nothing is to be told of a definition any more.
func (w *Watch) knows(j job) bool {
	told := w.told[j.provider]
	return told[j.digest] || len(told) >= mostTold
}

// look takes jobs until there are none.
func (w *Watch) look() {
	for j, ok := w.next(); ok; j, ok = w.next() {
		s := w.schema(j)
		if s == nil || j.value == nil {
			continue
		}
		if m := s.Misfit(j.value); m != nil {
			w.tell(j, "a result does not fit the tool's outputSchema; it was passed on as it is",
				"at", m.At, "expected", m.Expected, "found", m.Found, "rule", m.Rule)
		}
	}
}

// next is what to look at next, answers first.
func (w *Watch) next() (j job, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case len(w.answers) > 0:
			j, w.answers = w.answers[0], w.answers[1:]
		case len(w.listed) > 0:
			j, w.listed = w.listed[0], w.listed[1:]
			w.waiting -= j.size()
		default:
			w.answers, w.listed, w.waiting, w.looking = nil, nil, 0, false
			return job{}, false
		}
		if !w.knows(j) {
			return j, true
		}
	}
}

// schema is that of a definition, nil where nothing can be held against it.
func (w *Watch) schema(j job) *Schema {
	if s, ok := w.compiled[j.digest]; ok {
		return s
	}
	s, fault := Compile(j.schema)
	if fault != nil {
		w.tell(j, "a tool's outputSchema is no JSON Schema; its results are passed on as they are",
			"at", fault.At, "problem", fault.Problem)
		return nil
	}
	if j.value == nil {
		return nil // it may never be called
	}
	if w.size += s.cost(); w.size > mostCompiled {
		clear(w.compiled)
		w.size = s.cost()
	}
	w.compiled[j.digest] = s
	return s
}

// tell warns of a definition, once.
func (w *Watch) tell(j job, message string, more ...any) {
	w.mu.Lock()
	if w.told[j.provider] == nil {
		w.told[j.provider] = map[string]bool{}
	}
	w.told[j.provider][j.digest] = true
	last := len(w.told[j.provider]) == mostTold
	w.mu.Unlock()
	w.log.Warn(message, append([]any{"provider", j.provider, "tool", j.tool}, more...)...)
	if last {
		w.log.Warn("too many of a provider's definitions have results or outputSchemas that do not fit; no more is told of it", "provider", j.provider)
	}
}
