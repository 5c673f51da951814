package containment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// canRunOpenFiles says whether Command.Image can be run.
const canRunOpenFiles = true

// memoryImage makes an image in memory: a memfd that is sealed once it is written.
// ErrUnsupported means that this kernel has none, or lets none be executed.
func memoryImage(path, want string, source io.Reader) (*Sealed, error) {
	name := filepath.Base(path)
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every memfd is executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("%w: memfd_create: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	memory := os.NewFile(uintptr(fd), name)
	err = copyChecked(memory, source, path, want)
	if err == nil {
		const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
		_, err = unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		memory.Close()
		return nil, err
	}
	return &Sealed{sha256: want, path: path, memory: memory}, nil
}
