package journal

// batch is the lines that one fdatasync takes to the disk: those written since the
// last began. It belongs to one file.
type batch struct {
	file *file
	done bool
	err  error
}

// join is the batch of what has just been written, nil where nothing is forced to
// the disk. The mutex is held.
func (j *Journal) join() *batch {
	if !j.full {
		return nil
	}
	if j.batch == nil {
		j.batch = &batch{file: j.file}
	}
	return j.batch
}

// wait returns when the batch is on the disk. The first of those who wait for it
// takes it there, and while it does the next batch gathers.
func (j *Journal) wait(b *batch) error {
	if b == nil {
		return nil
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	if b.done {
		j.mu.Unlock()
		return b.err
	}
	j.batch, j.leading = nil, b // it is the one that gathers, or it would be done
	j.mu.Unlock()
	err := j.datasync(b.file)
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.done { // the file was retired in the meantime, and the batch settled first
		return b.err
	}
	b.done, j.leading = true, nil
	if err != nil {
		// What the system has dropped by now, nobody can say: the next line begins a
		// file anew.
		b.err = j.fail(err)
		if j.file == b.file {
			j.abandon()
		}
	}
	return b.err
}

// settle takes to the disk what gathers and what is on its way, before the file is
// closed: who is on the way may find it closed. The mutex is held.
func (j *Journal) settle() error {
	if j.batch == nil && j.leading == nil {
		return nil
	}
	err := j.datasync(j.file)
	if err != nil {
		err = j.fail(err)
	}
	for _, b := range []*batch{j.batch, j.leading} {
		if b != nil {
			b.done, b.err = true, err
		}
	}
	j.batch, j.leading = nil, nil
	return err
}
