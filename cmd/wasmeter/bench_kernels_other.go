//go:build !linux

package main

// adviseHuge has nobody to ask.
func adviseHuge([]byte) {}
