package gguf

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// ErrTorn is the error of data that could not be read from its mapped file.
var ErrTorn = errors.New("the file cannot be read any more: it was truncated or overwritten while it was loaded, or its disk fails; put it back and load it again")

// Guard runs read and returns its error, or ErrTorn if it touches a page of a mapped
// file that the system cannot supply. Without, that fault (SIGBUS) ends the
// process. It covers read's own goroutine only.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// runtime/debug.SetPanicOnFault: such a panic is a runtime.Error with Addr.
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			panic(r)
		}
		err = fmt.Errorf("%w (%v at %#x)", ErrTorn, fault, fault.Addr())
	}()
	return read()
}
