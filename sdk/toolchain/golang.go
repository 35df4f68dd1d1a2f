package toolchain

import (
	"context"
	goversion "go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// leastGo is the first Go that exports functions of a library as an SDK does.
const leastGo = "go1.26"

// goEnviron makes a build the same whatever the user has set. The go command
// fetches no other Go than the one that was checked.
var goEnviron = []string{"GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOEXPERIMENT=", "GOWASM=", "GOWORK=off", "GOTOOLCHAIN=local"}

func (p *Project) buildGo(ctx context.Context, _, out string) (string, error) {
	command := candidates("GO", "go")[0]
	missing := &Missing{Wanted: "Go 1.26 or later", Install: "apt-get install golang, brew install go, or https://go.dev/dl", Setting: "GO"}
	ask := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], "env", "GOVERSION")...)
	ask.Dir = os.TempDir() // no go.mod that asks for another Go
	ask.Env = append(os.Environ(), goEnviron...)
	said, err := ask.Output()
	if err != nil {
		return "", missing
	}
	found := strings.TrimSpace(string(said))
	// A build of Go's own tree has a name that is no version, such as devel go1.27.
	if v := strings.TrimPrefix(found, "devel "); goversion.Compare(strings.Fields(v + " go")[0], leastGo) < 0 {
		missing.Found = found
		return "", missing
	}
	module, err := filepath.Abs(out)
	if err != nil {
		return "", err
	}
	return found, run(ctx, p.Dir, goEnviron, append(command[:len(command):len(command)],
		"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", module, ".")...)
}
