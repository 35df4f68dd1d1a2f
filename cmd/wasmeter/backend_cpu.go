package main

import (
	"os"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
)

// newBackend makes the device that computes. This build has the CPU.
func newBackend(c *config.Config) (backend.Backend, error) {
	level, err := kernels.FromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	return cpu.New(cpu.Options{Threads: c.Device.Threads, Level: level.String(), MaxRows: c.Engine.MaxNumBatchedTokens, KVType: c.Device.KVCacheType})
}
