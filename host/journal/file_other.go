//go:build !unix

package journal

// intact says whether the file is as long as it was written. An open file cannot be
// removed here.
func (f *file) intact() error {
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.size.Load() {
		return errCut
	}
	return nil
}

// appendOnce hands a line to the system.
func (f *file) appendOnce(line []byte) (int, error) { return f.f.Write(line) }
