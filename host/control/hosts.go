package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// What a host that runs has in the folder of its user's hosts: HOST_ID.sock, and
// HOST_ID.json, which holds its Info. The file is there only while the socket is.
const (
	socketSuffix = ".sock"
	infoSuffix   = ".json"
	newSuffix    = ".new" // while it is written
)

// dialTimeout bounds the connection to a host. One that is there accepts at once, or
// the kernel does for it.
const dialTimeout = 2 * time.Second

// Info says which host it is.
type Info struct {
	ID      string    `json:"id"`
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Config is the absolute path of the file or folder that it serves.
	Config string `json:"config"`
	// StateDir is where its state is, the logs among it.
	StateDir string `json:"state_dir"`
	// URL is where it serves HTTP, "" for a host on stdio.
	URL string `json:"url"`
	// WhyNotMore is why no better tier holds its processes, "" where there is none.
	WhyNotMore string `json:"why_not_more,omitempty"`
}

// Paths are what a host has in dir while it serves. All begin with its id.
func (i Info) Paths(dir string) []string {
	return []string{i.file(dir), i.file(dir) + newSuffix, i.socket(dir)}
}

func (i Info) socket(dir string) string { return filepath.Join(dir, i.ID+socketSuffix) }

func (i Info) file(dir string) string { return filepath.Join(dir, i.ID+infoSuffix) }

func (i Info) write(dir string) error {
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	path := i.file(dir)
	if err := os.WriteFile(path+newSuffix, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+newSuffix, path)
}

// remove takes away what the host has in dir. The file goes first: where it is, the
// socket is.
func (i Info) remove(dir string) error {
	var errs []error
	for _, path := range i.Paths(dir) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Hosts returns those that run of the hosts in the folders of a user's hosts, the
// oldest first. wanted says which are looked at, nil that all are; what is left of a
// host that runs no more is passed over.
func Hosts(ctx context.Context, dirs []string, wanted func(Info) bool) ([]*Client, error) {
	var found []*Client
	for _, dir := range dirs {
		infos, err := readInfos(dir)
		if err != nil {
			return nil, err
		}
		for _, info := range infos {
			if wanted != nil && !wanted(info) {
				continue
			}
			if err := reach(ctx, info.socket(dir)); err == nil || !isDead(err) {
				found = append(found, NewClient(dir, info))
			}
		}
	}
	slices.SortFunc(found, func(a, b *Client) int {
		return cmp.Or(a.info.Started.Compare(b.info.Started), strings.Compare(a.info.ID, b.info.ID))
	})
	return found, ctx.Err()
}

// clean removes what hosts that died have left in a folder.
func clean(ctx context.Context, dir string) error {
	infos, err := readInfos(dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if err := reach(ctx, info.socket(dir)); isDead(err) {
			if err := info.remove(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// readInfos reads what stands in a folder. A file that is none is passed over.
func readInfos(dir string) ([]Info, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+infoSuffix))
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just stopped
		}
		if err != nil {
			return nil, err
		}
		var info Info
		if json.Unmarshal(text, &info) == nil && info.ID+infoSuffix == filepath.Base(file) {
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// reach connects, and hangs up.
func reach(ctx context.Context, socket string) error {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return conn.Close()
}

// isDead says whether nobody can be listening: a socket refuses only when the last
// process that had it is gone, and its host's id is never used again.
func isDead(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// Line is the host in one line, for people.
func (i Info) Line() string {
	where := i.URL
	if where == "" {
		where = "stdio"
	}
	return fmt.Sprintf("%s  pid %d  %s  %s", i.ID, i.PID, where, i.Config)
}
