package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// errNoFile is for what stands in the place of a file and is none.
var errNoFile = errors.New("it is no regular file")

const (
	generationsFolder = "generations"
	// keptGenerations are the fingerprints of a provider that are remembered. One
	// that comes back after as many others gets a new ordinal.
	keptGenerations = 64
)

// Generation returns the ordinal of a provider's fingerprint among all that it has
// had in this state dir, from 1. One that it had before has its old ordinal. Hosts
// that share the dir agree.
//
// Each ordinal is a file that holds its fingerprint. Only one host can make it, and
// nobody changes it.
func Generation(dir, slug, fingerprint string) (int, error) {
	folder := filepath.Join(dir, generationsFolder, slug)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, fmt.Errorf("generations of %s: %w", slug, err)
	}
	for {
		known, err := ordinals(folder)
		if err != nil {
			return 0, fmt.Errorf("generations of %s: %w", slug, err)
		}
		for _, n := range slices.Backward(known) {
			text, err := readRegular(ordinal(folder, n))
			if err == nil && strings.TrimSpace(string(text)) == fingerprint {
				return n, nil
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, fmt.Errorf("generations of %s: %w", slug, err)
			}
		}
		next := 1
		if len(known) > 0 {
			next = known[len(known)-1] + 1
		}
		if err := publish(ordinal(folder, next), fingerprint+"\n"); err != nil {
			return 0, fmt.Errorf("generations of %s: %w", slug, err)
		}
		for len(known) >= keptGenerations {
			_ = os.Remove(ordinal(folder, known[0])) // or another host has
			known = known[1:]
		}
		// Another host may have been first: what stands there decides.
	}
}

// readRegular reads a file; of what is none, reading might never end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	return os.ReadFile(path)
}

func ordinal(folder string, n int) string { return filepath.Join(folder, strconv.Itoa(n)) }

// ordinals are those that a folder has files of, in order.
func ordinals(folder string) ([]int, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}
