package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Missing is a compiler that is not there, or not in the right version.
type Missing struct {
	Wanted  string // the compiler and its version
	Found   string // what there is instead, "" for nothing
	Install string // the command that installs it
	Setting string // the environment variable that names another
}

func (m *Missing) Error() string {
	found := "it is not there"
	if m.Found != "" {
		found = "found " + m.Found
	}
	return fmt.Sprintf("%s is needed, %s; install it with: %s; or let %s name the command", m.Wanted, found, m.Install, m.Setting)
}

// Is makes a Missing an fs.ErrNotExist.
func (m *Missing) Is(target error) bool { return target == fs.ErrNotExist }

// cached is where sdk/toolchains.sh puts what it installs.
func cached(elements ...string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "" // no program, which is passed over
	}
	return filepath.Join(append([]string{dir, "wasmeter-toolchains"}, elements...)...)
}

// candidates are the commands to try, in order: what the environment names and
// nothing else, or these.
func candidates(setting string, others ...string) [][]string {
	if named := strings.Fields(os.Getenv(setting)); len(named) > 0 {
		return [][]string{named}
	}
	commands := make([][]string, 0, len(others))
	for _, c := range others {
		if words := strings.Fields(c); len(words) > 1 && words[1] == "-m" {
			commands = append(commands, words) // a module of Python's
		} else if c != "" {
			commands = append(commands, []string{c}) // a path may hold spaces
		}
	}
	return commands
}

// look gives the first command that says a version that is accepted. Without one
// found is what the first that there is says.
func look(ctx context.Context, commands [][]string, ask string, accept func(version string) bool) (command []string, version, found string) {
	for _, c := range commands {
		out, err := exec.CommandContext(ctx, c[0], append(c[1:len(c):len(c)], ask)...).Output()
		if err != nil {
			continue
		}
		said := strings.TrimSpace(string(out))
		if accept(said) {
			return c, said, ""
		}
		if found == "" {
			found = said
		}
	}
	return nil, "", found
}

// maxSaid bounds what is shown of a compiler's messages.
const maxSaid = 16 << 10

// run calls a compiler in a folder. Its messages are in the error.
func run(ctx context.Context, dir string, environ []string, command ...string) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), environ...)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
		text := said.Bytes()
		if len(text) > maxSaid {
			text = append(text[:maxSaid:maxSaid], "…"...)
		}
		return fmt.Errorf("it does not compile:\n%s", bytes.TrimSpace(text))
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", command[0], err)
	}
	return nil
}
