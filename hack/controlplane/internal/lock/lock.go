// Package lock keeps two processes from doing the same work at once.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const retryInterval = 200 * time.Millisecond

// Acquire takes the lock file, calling waiting once when another process holds it. The kernel frees the lock when the
// process ends, however it ends.
func Acquire(ctx context.Context, path string, waiting func()) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()

	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}

		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}

		if !told {
			waiting()

			told = true
		}

		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-ticker.C:
		}
	}
}
