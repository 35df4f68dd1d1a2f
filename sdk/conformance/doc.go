// Package conformance tells whether a guest, and so the SDK that it was written
// with, keeps to the ABI of host/plugin/ABI.md. README.md says what the guest
// must do. The package plays the host on wazero directly, since it makes what
// no host makes: frames of a later version, torn ones, and imports that fail.
package conformance
