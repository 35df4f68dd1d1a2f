//go:build !(cuda && cgo && linux)

package main

import (
	"strings"
	"testing"
)

// TestNoCUDAInThisBuild: who asks for a GPU is told how to get one, before anything
// else is looked at.
func TestNoCUDAInThisBuild(t *testing.T) {
	for _, args := range []string{"serve --port 0 --device cuda none.gguf", "serve --port 0 --device cuda:1 none.gguf", "bench --device cuda none.gguf", "selftest", "selftest --device cuda:1"} {
		if code, _, err := command(t, nil, strings.Fields(args)...); code != 1 || !strings.Contains(err, "this build has no CUDA; build with -tags cuda") {
			t.Errorf("%s: exit %d, %s", args, code, err)
		}
	}
}
