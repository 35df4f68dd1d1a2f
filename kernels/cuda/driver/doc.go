// Package driver is the CUDA driver as the engine uses it: one device with its
// primary context, memory, streams, events, kernels and graphs of captured work.
//
// It stands on gorgonia.org/cu and, where that lacks something, on the same
// handles. Both reach the driver through package shim, so that a binary with CUDA
// in it starts on hosts without a driver and Open says what is missing.
//
// All of it is behind the tag cuda (with cgo, on Linux); Built says whether this
// binary has it. A Device belongs to one goroutine: every call on it and on what
// it made lies between Enter, which ties the goroutine to its thread and makes
// the context the thread's current one, and Leave. Work goes to streams that do
// not wait for the default stream. Launches, copies, events and graphs allocate
// no Go memory.
package driver
