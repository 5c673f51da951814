//go:build !linux

package journal

// datasync forces what was written to the disk.
func (f *file) datasync() error { return f.f.Sync() }
