package journal

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// segmentMost and segmentLeast bound the bytes of one file, segmentPart is how
	// many make up the whole: what is removed is a file, so files are to be small
	// against max_size, and few.
	segmentMost  = 64 << 20
	segmentLeast = 64 << 10
	segmentPart  = 16
	// ageMost and ageLeast do the same for time.
	ageMost  = 24 * time.Hour
	ageLeast = time.Minute
	// keepEvery is how often files are looked over where none is made.
	keepEvery = time.Hour
)

// Reasons of calls that the journal itself ends.
const (
	// OutcomeUnknown is their outcome.
	OutcomeUnknown = "unknown"
	// ReasonHostStopped: the host ended while they were open.
	ReasonHostStopped = "host_stopped"
	// ReasonHostDied: it did so without saying goodbye.
	ReasonHostDied = "host_died"
)

func segmentSize(most int64) int64 {
	if most <= 0 {
		return segmentMost
	}
	return min(max(most/segmentPart, segmentLeast), segmentMost)
}

func segmentAge(keep time.Duration) time.Duration {
	if keep <= 0 {
		return ageMost
	}
	return min(max(keep/segmentPart, ageLeast), ageMost)
}

// keeper removes what is too old or too much, on a goroutine of its own.
type keeper struct {
	woken chan struct{}
	quit  chan struct{}
	once  sync.Once
	ended sync.WaitGroup
}

func keep(j *Journal) *keeper {
	k := &keeper{woken: make(chan struct{}, 1), quit: make(chan struct{})}
	k.ended.Go(func() {
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-k.quit:
				return
			case <-k.woken:
			case <-tick.C:
			}
			if err := j.prune(time.Now()); err != nil {
				j.opts.Logger.Warn("files of the journal are kept that are due to go", "error", err)
			}
		}
	})
	return k
}

// wake has the files looked over soon.
func (k *keeper) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

// stop ends the goroutine and waits for it.
func (k *keeper) stop() {
	k.once.Do(func() { close(k.quit) })
	k.ended.Wait()
}

// kept is a file that retention looks at.
type kept struct {
	path, host string
	seq        int
	size       int64
	last       time.Time
}

// prune removes files whose last line is older than Keep, and the oldest of all
// while they are more than MaxSize. The last file of a run that has not ended stays:
// it holds the calls in flight.
func (j *Journal) prune(now time.Time) error {
	files, err := listFiles(j.opts.Dir)
	if err != nil {
		return err
	}
	var total int64
	for _, f := range files {
		total += f.size
	}
	lasts := map[string]int{}
	for _, f := range files {
		lasts[f.host] = max(lasts[f.host], f.seq)
	}
	dead := map[string]bool{}
	var errs []error
	for _, f := range files {
		old := j.opts.Keep > 0 && f.last.Before(now.Add(-j.opts.Keep))
		much := j.opts.MaxSize > 0 && total > j.opts.MaxSize
		if !old && !much {
			continue
		}
		if f.seq == lasts[f.host] {
			gone, asked := dead[f.host]
			if !asked {
				gone, err = j.dead(f.host)
				errs = append(errs, err)
				dead[f.host] = gone
			}
			if !gone {
				continue
			}
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		total -= f.size
	}
	return errors.Join(errs...)
}

// dead says whether a run has ended; this one has not.
func (j *Journal) dead(host string) (bool, error) {
	if host == j.opts.HostID || j.opts.Dead == nil {
		return false, nil
	}
	return j.opts.Dead(host)
}

// listFiles are the files of all runs, the one with the oldest last line first. A
// folder that is not there has none.
func listFiles(dir string) ([]kept, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []kept
	for _, entry := range entries {
		host, seq, ok := parseName(entry.Name())
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // another host's retention
		}
		if err != nil {
			return nil, err
		}
		files = append(files, kept{filepath.Join(dir, entry.Name()), host, seq, info.Size(), info.ModTime()})
	}
	slices.SortFunc(files, func(a, b kept) int {
		return cmp.Or(a.last.Compare(b.last), strings.Compare(a.host, b.host), a.seq-b.seq)
	})
	return files, nil
}
