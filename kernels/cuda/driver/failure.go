//go:build cuda && cgo && linux

package driver

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver/shim"
)

// failed makes an Error of what gorgonia.org/cu returned for a call, nil of nil.
// It is small, so that the usual case is a comparison where it is called.
func failed(call string, err error) error {
	if err == nil {
		return nil
	}
	return failure(call, err)
}

// failure is failed for an error that is there.
func failure(call string, err error) *Error {
	// cu's results are of a type that it keeps to itself: an int.
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		if v := reflect.ValueOf(cause); v.Kind() == reflect.Int {
			return resultError(call, Result(v.Int()))
		}
	}
	e := newError(call, 999)
	e.Text = err.Error()
	return e
}

// resultError asks the driver what it has to say about a result.
func resultError(call string, result Result) *Error {
	absent := shim.Absent()
	e := newError(call, result)
	if _, ok := known[result]; !ok {
		if name := resultName(result); name != "" {
			e.Name = name
		}
	}
	e.Text = resultText(result)
	shim.Absent() // an old driver may lack these two as well
	if result == NotFound && absent != "" {
		e.Found = "the driver has no " + absent
		e.Advice = fmt.Sprintf("it is too old: install the NVIDIA driver %s or a later one", minVersionDriver)
	}
	return e
}
