package journal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// CallIDFile is the name of the table of call ids in a state dir.
const CallIDFile = "call_ids.db"

const (
	// MaxCallID bounds a call id, in bytes.
	MaxCallID = 256
	// HeldFor is how long the result of a call with an id is held for a repeat of it.
	// MaxHeld bounds one result and maxAllHeld all of them, in bytes.
	HeldFor    = 5 * time.Minute
	MaxHeld    = 1 << 20
	maxAllHeld = 32 << 20
	// purgeEvery is how often results that are held no longer are removed.
	purgeEvery = time.Minute
)

// What may be wrong with a call id.
var (
	// ErrCallIDReused: it was used for another call. The caller is told no more than
	// that, as denied, ReasonCallIDReused.
	ErrCallIDReused = errors.New("this call id was used before, for another call")
	// ErrCallIDForm: it is none. The message says why.
	ErrCallIDForm = errors.New("drawbridge/call_id")
)

// Reasons of calls that carry an id, for programs.
const (
	ReasonCallIDReused   = "call_id_reused"
	ReasonCallIDInFlight = "call_id_in_flight"
)

// CallIDOptions is what the table of call ids is made of.
type CallIDOptions struct {
	// Path is the table's file, STATE_DIR/call_ids.db.
	Path string
	// Folder is that of the journal: how a call ended whose host died before it could say
	// so here. "" where there is none to ask.
	Folder string
	// HostID is the id of this run.
	HostID string
	// Key keys the digests of arguments: it belongs to the state dir and stays secret.
	Key []byte
	// Keep is how long an id is remembered after its call has ended; 0 for ever.
	Keep time.Duration
	// Dead says whether another run has ended. Nil: none has.
	Dead Dead
	// Logger gets what goes wrong beside a call. Nil: nobody.
	Logger *slog.Logger
}

// CallIDs remembers the calls that their callers gave an id, so that each of them
// runs once: across restarts, and across the hosts of a state dir. It is safe for
// concurrent use, and opens its file when the first call has an id.
//
// A broker uses it so, for a call with an id and for no other:
//
//	after authorization
//	    CheckCallID               error → invalid params, nothing else
//	    Lookup                    Free → go on; ErrCallIDReused → denied; else answer what is Known
//	with all decided, before Journal.Begin
//	    Claim                     Free → the id is this call's; else as above
//	after Journal.End, before the answer
//	    if nothing was sent (Begin failed, undelivered, cancelled before dispatch)
//	        Release               the id may be used again
//	    otherwise
//	        Finish                with the outcome and, up to a size, the answer's bytes
//
// Of a host that dies between the two the journal has the end, and it counts here too.
// Lookup spares a repeat the start of a server; Claim alone decides. A call that is
// Known is answered without being sent: InFlight as unavailable with
// ReasonCallIDInFlight (to repeat it with the same id is safe), Ended with the
// answer that is held, or with its outcome where none is, and what was settled with
// what the owner found. Any other error of these methods means that the table
// cannot be used: the call is then unavailable, since it might run twice.
type CallIDs struct {
	opts CallIDOptions

	mu     sync.Mutex
	db     *sql.DB // nil until it is needed
	closed bool
	// owed are changes that could not be written, by call id. They come before
	// whatever is asked next, and hold for this host already.
	owed   map[string]change
	quit   chan struct{}
	purger sync.WaitGroup
}

// change is what is owed for an id: the end of its call, or its release.
type change struct {
	journalID string
	release   bool
	end       End
	ended     time.Time
	answer    []byte
}

// Binding is what an id is bound to by its first use.
type Binding struct {
	Principal, Project, Provider, Tool string
	// Arguments is the sum of a Hash that the arguments were written to.
	Arguments []byte
}

// IDState says where an id stands.
type IDState string

// The states of an id.
const (
	// IDFree: never used, or nothing was sent for it.
	IDFree IDState = "free"
	// IDInFlight: its call has been sent, or is about to be.
	IDInFlight IDState = "in_flight"
	// IDEnded: its call has ended.
	IDEnded IDState = "ended"
)

// Known is what is known of an id.
type Known struct {
	State IDState
	// JournalID is the call's id in the journal, HostID the run that took it.
	JournalID, HostID string
	// Outcome and Reason are how it ended; a call whose host died is unknown, where the
	// journal has no end of it.
	Outcome, Reason string
	// Ended is when.
	Ended time.Time
	// Settled is SettledOK or SettledNotRun where the owner has said what became of a
	// call whose outcome is unknown, else "".
	Settled string
	// Answer is what Finish was given, while it is held; else nil.
	Answer []byte
}

// NewCallIDs returns the table of call ids; it opens nothing yet.
func NewCallIDs(opts CallIDOptions) *CallIDs {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &CallIDs{opts: opts, owed: map[string]change{}, quit: make(chan struct{})}
}

// CheckCallID says what is wrong with the form of an id.
func CheckCallID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w is empty: leave it out, or make it a text that no other call has", ErrCallIDForm)
	case len(id) > MaxCallID:
		return fmt.Errorf("%w has %d bytes, and may have %d: use a UUID or another short text that no other call has", ErrCallIDForm, len(id), MaxCallID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w is no valid UTF-8", ErrCallIDForm)
	case strings.ContainsRune(id, utf8.RuneError): // half a surrogate pair has become one, and so would another half
		return fmt.Errorf("%w has U+FFFD or half a character in it, by which ids cannot be told apart: use a UUID or another short text that no other call has", ErrCallIDForm)
	}
	return nil
}

// Hash is the keyed hash of arguments: write them to it, in one form for one
// meaning, and bind the id to its sum.
func (c *CallIDs) Hash() hash.Hash { return hmac.New(sha256.New, c.opts.Key) }

// Lookup says what is known of an id, and takes nothing.
func (c *CallIDs) Lookup(ctx context.Context, id string, b Binding) (known Known, err error) {
	err = c.in(ctx, func(tx *sql.Tx) error {
		known, err = c.find(ctx, tx, id, b)
		return err
	})
	return known, err
}

// Claim takes an id for the call that the journal knows as journalID. The id is the
// caller's if the state that it returns is IDFree, and only then; of all who claim
// it at once, whatever their hosts, that is one.
func (c *CallIDs) Claim(ctx context.Context, id string, b Binding, journalID string) (known Known, err error) {
	// Not to be given up half way: whether it is taken could not be told.
	ctx = context.WithoutCancel(ctx)
	err = c.in(ctx, func(tx *sql.Tx) error {
		if known, err = c.find(ctx, tx, id, b); err != nil || known.State != IDFree {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO call_ids (call_id, principal, project, provider, tool, arguments, host, journal_id, claimed)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, b.Principal, b.Project, b.Provider, b.Tool, b.Arguments, c.opts.HostID, journalID, time.Now().UnixMicro())
		return err
	})
	if err != nil && !errors.Is(err, ErrCallIDReused) {
		// It may be taken all the same, if the commit failed late.
		c.owe(id, change{journalID: journalID, release: true})
		known = Known{}
	}
	return known, err
}

// Release gives an id back that was claimed: nothing was sent for it. With an error
// that is done later.
func (c *CallIDs) Release(ctx context.Context, id, journalID string) error {
	return c.change(ctx, id, change{journalID: journalID, release: true})
}

// Finish records how a call ended that claimed its id, and holds its answer for
// HeldFor, if it is not too large. With an error that is done later, and holds for
// this host already.
func (c *CallIDs) Finish(ctx context.Context, id, journalID string, end End, answer []byte) error {
	if len(answer) > MaxHeld {
		answer = nil
	}
	return c.change(ctx, id, change{journalID: journalID, end: end, ended: time.Now(), answer: answer})
}

func (c *CallIDs) change(ctx context.Context, id string, ch change) error {
	ctx = context.WithoutCancel(ctx)
	err := c.in(ctx, func(tx *sql.Tx) error { return ch.write(ctx, tx, id) })
	if err != nil {
		c.owe(id, ch)
	}
	return err
}

func (c *CallIDs) owe(id string, ch change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.owed[id]; has && ch.release {
		return // an end that is owed is more than the release of a claim that came to nothing
	}
	c.owed[id] = ch
}

// Close ends the use of the table. What is still in flight counts as unknown when
// this run is over.
func (c *CallIDs) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.closed = true
	close(c.quit)
	db := c.db
	c.db = nil
	c.mu.Unlock()
	c.purger.Wait()
	if db == nil {
		return nil
	}
	return db.Close()
}
