package plugin

import (
	"fmt"
	"io/fs"
	"os"
)

// secureDir makes dir, or checks that a dir that exists can be changed by
// this user only: whoever writes there chooses the code this process runs.
func secureDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is %s, not a folder; name a folder of your own", dir, describe(info.Mode()))
	}
	if owner, known := ownerOf(info); known && owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d and this process runs as %d; it holds native code, so name a folder of your own", dir, owner, os.Geteuid())
	}
	if !modesTell {
		return nil
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return fmt.Errorf("%s has mode %04o; it holds native code, so it must be yours alone: chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}

func describe(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "a file"
}
