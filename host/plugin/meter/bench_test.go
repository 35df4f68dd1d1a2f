package meter

import (
	"os"
	"testing"
)

// BenchmarkRewrite is what metering adds to loading a plugin of a Go compiler.
func BenchmarkRewrite(b *testing.B) {
	module, err := os.ReadFile("../../../plugins/billing/billing.wasm")
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(module)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Rewrite(module); err != nil {
			b.Fatal(err)
		}
	}
}
