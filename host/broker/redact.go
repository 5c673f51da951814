package broker

import (
	"fmt"
	"io"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

// MetaRedacted is set in the `_meta` of a result that a secret was taken out of.
const MetaRedacted = metaPrefix + "redacted"

// Cleaner takes values of secret() out of what servers say.
type Cleaner struct {
	// Secrets are the values in force, nil for none. It is asked each time.
	Secrets func() *scrub.Set
	// Dir is where large messages go, "" the system's directory for temporary files.
	Dir string
}

// set is what is to be taken out, nil for nothing.
func (c Cleaner) set() *scrub.Set {
	if c.Secrets == nil {
		return nil
	}
	return c.Secrets()
}

// text is a caller's text as it may be written down: a caller can have come by a
// secret.
func (c Cleaner) text(text string) string {
	if set := c.set(); set != nil {
		return set.Text(text)
	}
	return text
}

// Answer returns a server's answer without secrets, and says whether it held one;
// a result is then marked. It owns the message it is given. Without a secret that
// is the message it returns.
func (c Cleaner) Answer(m *rpc.Message) (*rpc.Message, bool, error) {
	clean, found, err := c.clean(m)
	if err != nil || !found || clean.Kind != rpc.Result {
		return clean, found, err
	}
	out, err := c.mark(clean)
	if err != nil {
		_ = clean.Close()
	}
	return out, true, err
}

// mark says in a result that a secret was taken out of it. It owns the message that it is
// given, but on an error.
func (c Cleaner) mark(m *rpc.Message) (*rpc.Message, error) {
	// What is left of a `_meta` that is no object has no place for the mark.
	if _, kind, there := m.FindKind("result", "_meta"); there && kind != '{' {
		return m, nil
	}
	marked := m.Edit().RemovePrefix(metaPrefix, "result", "_meta").Set([]byte("true"), "result", "_meta", MetaRedacted)
	out, err := c.again(marked.Payload().WriteTo)
	if err == nil {
		_ = m.Close()
	}
	return out, err
}

// Notification is Answer for what a server says beside its answers, which bears no
// mark.
func (c Cleaner) Notification(m *rpc.Message) (*rpc.Message, error) {
	clean, _, err := c.clean(m)
	return clean, err
}

func (c Cleaner) clean(m *rpc.Message) (*rpc.Message, bool, error) {
	set := c.set()
	if set == nil {
		return m, false, nil
	}
	look := redact.NewJSON(set, nil)
	if err := through(look, m); err != nil || !look.Found() {
		return m, false, err
	}
	out, err := c.again(func(w io.Writer) (int64, error) { return 0, through(redact.NewJSON(set, w), m) })
	_ = m.Close()
	return out, err == nil, err
}

// through writes a message to j: all of it but what makes it the message that it
// is is looked at.
func through(j *redact.JSON, m *rpc.Message) error {
	var raw []jsonscan.Span
	for _, path := range [][]string{{"jsonrpc"}, {"id"}, {"method"}, {"error", "code"}, {"params", "progressToken"}} {
		if at, ok := m.Find(path...); ok {
			raw = append(raw, at)
		}
	}
	slices.SortFunc(raw, func(a, b jsonscan.Span) int { return int(a.Start - b.Start) })
	from := int64(0)
	for _, at := range raw {
		if _, err := m.Section(jsonscan.Span{Start: from, End: at.Start}).WriteTo(j); err != nil {
			return err
		}
		kept, err := m.Section(at).Append(nil)
		if err != nil {
			return err
		}
		if err := j.Raw(kept); err != nil {
			return err
		}
		from = at.End
	}
	if _, err := m.Section(jsonscan.Span{Start: from, End: m.Size()}).WriteTo(j); err != nil {
		return err
	}
	return j.Close()
}

// again makes a message of what write writes.
func (c Cleaner) again(write func(io.Writer) (int64, error)) (*rpc.Message, error) {
	asm := rpc.NewAssembler(rpc.FromServer, c.Dir, 0)
	if _, err := write(asm); err != nil {
		asm.Abort()
		return nil, err
	}
	return asm.Finish()
}

// cleanAnswer is a server's answer as its caller may see it. Where that cannot be
// made the answer is lost.
func (b *Broker) cleanAnswer(slug string, answer *rpc.Message) (*rpc.Message, bool, error) {
	if b.providers[slug].KeepSecrets {
		return answer, false, nil
	}
	clean, found, err := b.opts.Cleaner.Answer(answer)
	if err == nil {
		return clean, found, nil
	}
	_ = answer.Close()
	return nil, false, &session.Lost{
		Dispatched: true, Reason: session.MalformedAnswer,
		Cause: fmt.Sprintf("the answer could not be looked through for secrets: %v", err),
	}
}

// cleanNotify is notify without secrets. What cannot be looked through is not told.
func (b *Broker) cleanNotify(slug string, notify func(*rpc.Message) error) func(*rpc.Message) error {
	if notify == nil || b.providers[slug].KeepSecrets || b.opts.Cleaner.set() == nil {
		return notify
	}
	return func(m *rpc.Message) error {
		clean, err := b.opts.Cleaner.Notification(m)
		if err != nil {
			return nil
		}
		if clean != m {
			defer func() { _ = clean.Close() }()
		}
		return notify(clean)
	}
}
