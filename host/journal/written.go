package journal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// endInFiles is how a call of a run that is over ended, by the files of the journal in
// a folder; false where they have no end of it. The newest files are read first: a run
// dies with its last calls, and each file begins with those that are open.
func endInFiles(dir, host, id string) (end ending, found bool, err error) {
	files, err := listFiles(dir)
	if err != nil {
		return ending{}, false, err
	}
	files = slices.DeleteFunc(files, func(f kept) bool { return f.host != host })
	slices.SortFunc(files, func(a, b kept) int { return b.seq - a.seq })
	for _, f := range files {
		if end, found, err = endInFile(f.path, id); found || err != nil {
			return end, found, err
		}
	}
	return ending{}, false, nil
}

// endInFile reads one file. Only lines that name the call are looked into: others wait
// for the table of ids meanwhile.
func endInFile(path, id string) (end ending, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return ending{}, false, nil // retention was here
	}
	if err != nil {
		return ending{}, false, err
	}
	defer f.Close()
	look := seen{
		line: func(_ int64, r record) error {
			switch {
			case r.End != nil && r.End.ID == id:
				end = r.End.ending
			case r.Call != nil && r.Call.ID == id:
				end = r.Call.ending
			default:
				return nil
			}
			return fs.SkipAll
		},
		damage: func(damage) error { return nil },
	}
	names := []byte(`"` + id + `"`)
	for lines := bufio.NewReaderSize(f, 2*maxLine); ; {
		line, err := lines.ReadSlice('\n') // what is longer is no line, and comes in pieces
		if bytes.Contains(line, names) {
			if err := readLine(bytes.TrimSuffix(line, []byte("\n")), 0, look); errors.Is(err, fs.SkipAll) {
				return end, true, nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return ending{}, false, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return ending{}, false, err
		}
	}
}
