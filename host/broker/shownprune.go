package broker

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What is kept of clients is bounded, and what goes leaves a mark: a client that was
// forgotten must not pass for one that was never shown anything.

// marked says that files of a folder were forgotten, or that it cannot be told.
func marked(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, forgottenMark))
	return !errors.Is(err, fs.ErrNotExist)
}

// mark notes that files of a folder are about to be forgotten.
func mark(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, forgottenMark), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// prune removes the files of one owner that were used the longest ago, over
// maxClients, and what a host that died while it wrote has left.
func (s *shownStore) prune(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		switch {
		case e.Name() == forgottenMark:
		case strings.HasSuffix(e.Name(), shownSuffix):
			files = append(files, info)
		case time.Since(info.ModTime()) > time.Hour: // another host's may be in the making
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	s.forget(dir, files, maxClients)
}

// pruneOwners removes the folders of owners that have no grants, over maxOwners,
// those that were used the longest ago; not that of one who is just beginning.
func (s *shownStore) pruneOwners(begins string) {
	keep := map[string]bool{filepath.Base(begins): true}
	if s.declared != nil {
		for _, o := range s.declared() {
			keep[shortDigest(o.Principal, o.Project)] = true
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	var folders []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.IsDir() && ownerFolder.MatchString(e.Name()) && !keep[e.Name()] {
			folders = append(folders, info)
		}
	}
	s.forget(s.dir, folders, maxOwners)
}

// forget removes what is over a number in a folder, the oldest, once it is marked:
// without the mark it stays.
func (s *shownStore) forget(dir string, all []fs.FileInfo, most int) {
	if len(all) <= most || mark(dir) != nil {
		return
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	for _, old := range all[most:] {
		_ = os.RemoveAll(filepath.Join(dir, old.Name()))
	}
}
