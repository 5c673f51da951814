package journal

import (
	"testing"
	"time"
)

// BenchmarkCall writes the two lines of a call, by as many goroutines as there are
// processors.
func BenchmarkCall(b *testing.B) {
	for _, sync := range []string{"normal", SyncFull} {
		b.Run(sync, func(b *testing.B) {
			j, err := Open(Options{Dir: b.TempDir(), HostID: testHost, Sync: sync})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					e := entry(j)
					if err := j.Begin(e); err != nil {
						b.Error(err)
					}
					if err := j.End(e, good); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkIndex reads 10,000 calls into an index.
func BenchmarkIndex(b *testing.B) {
	dir := b.TempDir()
	j, err := Open(Options{Dir: dir, HostID: testHost})
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	for range 10_000 {
		e := entry(j)
		e.Time = time.Now()
		if err := j.Begin(e); err != nil {
			b.Fatal(err)
		}
		if err := j.End(e, good); err != nil {
			b.Fatal(err)
		}
	}
	files, err := listFiles(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(files[0].size)
	for b.Loop() {
		x := &Index{dir: dir}
		if err := x.inMemory(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := x.Update(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := x.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
