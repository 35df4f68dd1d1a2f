package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/wasmeter/wasmeter/config"
	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/backend/cpu"
	"github.com/wasmeter/wasmeter/engine/backend/cuda"
	kernels "github.com/wasmeter/wasmeter/kernels/cpu"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// The environment's part in a GPU.
const (
	// envDriver is the path of the CUDA driver's library, where it is not the
	// system's.
	envDriver = "WASMETER_CUDA_DRIVER"
	// envSync, if set to 1, waits for each kernel, so that errors name the one that
	// made them.
	envSync = "WASMETER_CUDA_SYNC"
	// envCuBLASLt is the path of cuBLASLt, where the loader does not find it.
	envCuBLASLt = "WASMETER_CUBLASLT"
)

// deviceOptions say what computes.
type deviceOptions struct {
	name             string // auto, cpu, cuda or cuda:n
	threads          int    // of the CPU
	kvType           string
	maxRows, maxSeqs int                     // 0: the backend's default
	utilization      float64                 // of the GPU's free memory
	cublaslt         string                  // off, auto or on
	progress         func(done, total int64) // of the weights on their way to the GPU
	logger           *slog.Logger
}

// configured are the options of a configuration.
func configured(c *config.Config, logger *slog.Logger) deviceOptions {
	return deviceOptions{
		name: c.Device.Name, threads: c.Device.Threads, kvType: c.Device.KVCacheType,
		maxRows: c.Engine.MaxNumBatchedTokens, maxSeqs: c.Engine.MaxNumSeqs,
		utilization: c.Device.GPUMemoryUtilization, cublaslt: c.Device.CuBLASLt, logger: logger,
	}
}

// check refuses what no later step can make good.
func (o deviceOptions) check() error {
	if strings.HasPrefix(o.name, "cuda") && !driver.Built {
		return fmt.Errorf("device %s: %w", o.name, driver.ErrNotBuilt)
	}
	return nil
}

// open makes the device that computes: auto takes a GPU if this build has CUDA and
// there is one, and else the CPU.
func (o deviceOptions) open() (backend.Backend, error) {
	if o.name == "cpu" || o.name == "auto" && !driver.Built {
		return o.openCPU()
	}
	_, number, _ := strings.Cut(o.name, ":")
	ordinal, _ := strconv.Atoi(number) // none is 0; the configuration has checked it
	b, err := cuda.Open(cuda.Options{
		Driver: os.Getenv(envDriver), Ordinal: ordinal, MaxRows: o.maxRows, MaxSeqs: o.maxSeqs, Utilization: o.utilization,
		CuBLASLt: o.cublaslt, CuBLASLtPath: os.Getenv(envCuBLASLt), KVType: o.kvType, Synchronous: os.Getenv(envSync) == "1", Progress: o.progress, Logger: o.logger,
	})
	switch {
	case err == nil:
		return b, nil
	case o.name == "auto" && !errors.Is(err, cuda.ErrCuBLASLt):
		o.logger.Warn("no GPU: the CPU computes", "reason", err)
		return o.openCPU()
	}
	return nil, fmt.Errorf("device %s: %w", o.name, err)
}

func (o deviceOptions) openCPU() (backend.Backend, error) {
	level, err := kernels.FromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	return cpu.New(cpu.Options{Threads: o.threads, Level: level.String(), MaxRows: o.maxRows, KVType: o.kvType})
}

// cacheMemory is the memory for keys and values: what is configured, and on a device
// that says how much it has left, no more than that. There the configuration's
// default is no bound.
func cacheMemory(c *config.Config, b backend.Backend) (int64, error) {
	s, ok := b.(backend.Sizer)
	if !ok {
		return c.Engine.KVCacheMemory, nil
	}
	left := s.KVMemory()
	switch {
	case left == 0:
		return 0, fmt.Errorf("engine.gpu_memory_utilization: %g leaves no memory for keys and values on %s beside the weights; raise it, free memory of the GPU, or use a file of smaller weights",
			c.Device.GPUMemoryUtilization, b.Name())
	case c.Origin("engine.kv_cache_memory").Layer == config.LayerDefault:
		return left, nil
	}
	return min(c.Engine.KVCacheMemory, left), nil
}
