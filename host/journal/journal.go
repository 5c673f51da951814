package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Folder is where the journal is in a state dir.
const Folder = "journal"

// SyncFull is the value of Options.Sync that has each line forced to the disk.
const SyncFull = "full"

// ErrClosed is for a call that comes after Close.
var ErrClosed = errors.New("the journal is closed")

// Options is what a journal is made of.
type Options struct {
	// Dir is the folder, STATE_DIR/journal; it is made where it is missing.
	Dir string
	// HostID is the id of this run of the host: letters, digits and dashes.
	HostID string
	// Sync is "normal" or "full".
	Sync string
	// Keep is how long a file is kept after its last line, MaxSize how many bytes
	// all files may have. 0: no bound.
	Keep    time.Duration
	MaxSize int64
	// Dead says whether another run has ended. The last file of one that has not
	// is never removed. Nil: none has.
	Dead Dead
	// Logger gets what is wrong with the journal, and when it is well again. Nil: nobody.
	Logger *slog.Logger
}

// Dead says whether the run of a host has ended, however it did.
type Dead func(hostID string) (bool, error)

// Journal is the record of the calls of one run. It is safe for concurrent use.
type Journal struct {
	opts    Options
	full    bool
	segment int64         // bytes after which a new file is begun
	age     time.Duration // the same, in time
	idHead  string
	ids     atomic.Uint64
	keeper  *keeper

	open flying

	// mu is held shared to append a line to a file about which nothing is to be done,
	// and else exclusively.
	mu     sync.RWMutex
	closed bool
	file   *file // nil: the next write makes one
	seq    int   // of file
	// owed are the lines that could not be written when they should have been.
	owed [][]byte
	// missed counts refusals that could not be written.
	missed uint64
	unwell error // the last failure, until a write succeeds
	// batch gathers what is to be forced to the disk, leading is on its way there.
	batch, leading *batch
	syncing        sync.Mutex // held by whoever takes a batch to the disk
	datasync       func(*file) error
}

// Open begins the journal of a run. A journal that cannot be written now is no
// error here: each Begin tries again, and says why where it cannot.
func Open(opts Options) (*Journal, error) {
	if !validHost(opts.HostID) {
		return nil, fmt.Errorf("host id %q: it is to name a file", opts.HostID)
	}
	switch opts.Sync {
	case SyncFull, "normal", "":
	default:
		return nil, fmt.Errorf("sync %q: it is normal or full", opts.Sync)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	j := &Journal{
		opts: opts, full: opts.Sync == SyncFull, segment: segmentSize(opts.MaxSize), age: segmentAge(opts.Keep),
		idHead: opts.HostID[:min(len(opts.HostID), idDigits)] + "-",
		open:   flying{all: make(map[string]*Entry)}, datasync: (*file).datasync,
	}
	j.keeper = keep(j)
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.ready(0) // it has been logged
	return j, nil
}

// idDigits is how much of the host's id begins the ids of its calls: as much as
// names what else the host owns.
const idDigits = 12

// NewID is an id for a call, unique across hosts.
func (j *Journal) NewID() string {
	id := make([]byte, 0, 32)
	return string(strconv.AppendUint(append(id, j.idHead...), j.ids.Add(1), 10))
}

// Begin writes that a call is about to be sent. An error, which is an
// *Unwritable or ErrClosed, means: send nothing, for it could not be told
// afterwards. Nothing has to be ended then.
func (j *Journal) Begin(e *Entry) error {
	line := newLine()
	defer line.free()
	line.begin(e)
	if j.easy(line.bytes, func() { j.open.begin(e) }) {
		return nil
	}
	j.mu.Lock()
	b, err := j.append(line.bytes)
	if err == nil {
		j.open.begin(e)
	}
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if err := j.wait(b); err != nil {
		// The line may be there all the same, and must not look like a call in flight.
		j.mu.Lock()
		defer j.mu.Unlock()
		j.owe(e, End{Outcome: "unavailable", Reason: ReasonUnwritable, Duration: time.Since(e.Time)})
		return err
	}
	return nil
}

// ReasonUnwritable is the reason of calls that were not sent because they could
// not be written down.
const ReasonUnwritable = "journal"

// End writes how a call ended that has begun. With an error the line is not on
// disk yet; it is kept and written before the next begin, so the answer may go out.
func (j *Journal) End(e *Entry, end End) error {
	line := newLine()
	defer line.free()
	line.end(e, end)
	if j.easy(line.bytes, func() { j.open.end(e.ID) }) {
		return nil
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return ErrClosed
	}
	b, err := j.append(line.bytes) // a new file repeats the begin: it is still open
	if err != nil {
		j.owe(e, end)
	}
	j.open.end(e.ID)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if err := j.wait(b); err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.owe(e, end)
		return err
	}
	return nil
}

// Refuse writes a call that was refused or given up before it began. With an error
// it is not recorded; how many were not is written when the journal is well again.
func (j *Journal) Refuse(e *Entry, end End) error {
	line := newLine()
	defer line.free()
	line.call(e, end)
	if j.easy(line.bytes, func() {}) {
		return nil
	}
	j.mu.Lock()
	b, err := j.append(line.bytes)
	if err != nil && !j.closed {
		j.missed++
	}
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.wait(b)
}

// Close ends the journal. Calls that are still open are closed as unknown: nobody
// is left to say more.
func (j *Journal) Close() error {
	j.keeper.stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	for _, e := range j.open.all {
		j.owe(e, End{Dispatched: true, Outcome: OutcomeUnknown, Reason: ReasonHostStopped, Duration: time.Since(e.Time)})
	}
	var err error
	if len(j.owed) > 0 || j.missed > 0 {
		err = j.ready(0)
	}
	j.closed = true
	if j.file != nil {
		err = errors.Join(err, j.retire())
	}
	return err
}

// owe keeps a call whose last line could not be written. The mutex is held.
func (j *Journal) owe(e *Entry, end End) {
	defer j.open.end(e.ID)
	line := newLine()
	defer line.free()
	line.call(e, end) // whole: the file with its begin may be gone when it is written
	j.owed = append(j.owed, slices.Clone(line.bytes))
}

// easy appends a line where nothing has to be done about the file first, and then
// notes what the line says. It lets others append at the same time: a lock that is
// held exclusively while the system writes makes a queue of all callers whenever the
// one that holds it loses its processor. False: nothing was written that counts,
// and the line is for append.
func (j *Journal) easy(line []byte, note func()) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	now := time.Now()
	if j.full || j.closed || j.file == nil || j.unwell != nil || j.missed > 0 || len(j.owed) > 0 ||
		j.file.torn.Load() || now.Sub(j.file.looked) >= lookEvery || j.outgrown(int64(len(line)), now) {
		return false
	}
	if err := j.file.append(line); err != nil {
		return false // it is tried again, and said
	}
	note()
	return true
}

// append writes a line; who needs it on disk waits for the batch. The mutex is held.
func (j *Journal) append(line []byte) (*batch, error) {
	if j.closed {
		return nil, ErrClosed
	}
	if err := j.ready(int64(len(line))); err != nil {
		return nil, err
	}
	if err := j.write(line); err != nil {
		return nil, err
	}
	return j.join(), nil
}

// ready sees to a file that takes a line of that many bytes: there, whole, neither
// too large nor too old, and with nothing owed. The mutex is held.
func (j *Journal) ready(need int64) error {
	now := time.Now()
	if j.file != nil && now.Sub(j.file.looked) >= lookEvery {
		j.file.looked = now
		if err := j.file.intact(); err != nil {
			j.opts.Logger.Error("the journal's file was taken away or cut by another; what it held may be lost, calls in flight are written again",
				"file", j.file.path, "error", err)
			j.abandon()
		}
	}
	if j.file != nil && j.outgrown(need, now) {
		_ = j.retire()
	}
	if j.file != nil && j.file.torn.Load() && j.file.mend() != nil {
		j.abandon()
	}
	if j.file == nil {
		if err := j.create(); err != nil {
			return err
		}
		j.keeper.wake()
	}
	for len(j.owed) > 0 {
		if err := j.write(j.owed[0]); err != nil {
			return err
		}
		j.owed = j.owed[1:]
	}
	if j.missed > 0 {
		line := newLine()
		defer line.free()
		line.gap(gap{Time: now, Refusals: j.missed})
		if err := j.write(line.bytes); err != nil {
			return err
		}
		j.missed = 0
	}
	return nil
}

// outgrown says whether the file is too large for so many bytes more, or too old. The
// mutex is held, shared is enough.
func (j *Journal) outgrown(need int64, now time.Time) bool {
	return j.file.size.Load()+need > j.segment || now.Sub(j.file.made) > j.age
}

// create makes the next file, with its header and the calls that are open. The
// mutex is held.
func (j *Journal) create() error {
	var head []byte
	line := newLine()
	defer line.free()
	for _, e := range j.open.all {
		line.begin(e)
		head = append(head, line.bytes...)
	}
	if err := os.MkdirAll(j.opts.Dir, 0o700); err != nil {
		return j.fail(err)
	}
	for {
		j.seq++
		now := time.Now()
		line.header(header{Version: fileVersion, Host: j.opts.HostID, Seq: j.seq, Time: now})
		f, err := createFile(filepath.Join(j.opts.Dir, fileName(j.opts.HostID, j.seq)), now)
		if errors.Is(err, os.ErrExist) {
			continue // never another's: it has this run's id
		}
		if err != nil {
			j.seq--
			return j.fail(err)
		}
		if err := f.write(slices.Concat(line.bytes, head)); err != nil {
			f.discard()
			j.seq--
			return j.fail(err)
		}
		j.file = f
		j.join()
		j.recovered()
		return nil
	}
}

// write appends to the file. A file that has failed for another reason than want
// of space is given up. The mutex is held.
func (j *Journal) write(line []byte) error {
	err := j.file.write(line)
	if err == nil {
		j.join()
		j.recovered()
		return nil
	}
	if !outOfSpace(err) || j.file.torn.Load() {
		j.abandon()
	}
	return j.fail(err)
}

// retire ends a file that is good. The mutex is held.
func (j *Journal) retire() error {
	err := j.settle()
	j.file, err = nil, errors.Join(err, j.file.close())
	return err
}

// abandon gives up a file that is not. The mutex is held.
func (j *Journal) abandon() { _ = j.retire() }

// fail makes the error of a write, and logs the first of a row. The mutex is held.
func (j *Journal) fail(err error) error {
	if j.unwell == nil {
		j.opts.Logger.Error("the journal cannot be written: no call is sent until it can", "error", err)
	}
	u := &Unwritable{Cause: cause(err), Err: err}
	j.unwell = u
	return u
}

// recovered notes that a write went well. The mutex is held.
func (j *Journal) recovered() {
	if j.unwell != nil {
		j.unwell = nil
		j.opts.Logger.Info("the journal can be written again", "file", j.file.path, "refusals_not_written", j.missed)
	}
}
