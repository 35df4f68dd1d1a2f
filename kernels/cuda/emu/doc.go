// Package emu is the emulated CUDA driver's handle for tests: where the library
// lies, what it has seen, and which faults it shall make. The library itself is the
// C++ in this folder (README.md); programs load it as they load a driver, by its
// path. The package has the tag cuda, and no program imports it.
package emu
