//go:build cuda && cgo && linux

package suite

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

func TestZZ(t *testing.T) {
	b := openBench(t)
	re := regexp.MustCompile(os.Getenv("ZZ"))
	n, bad := 0, 0
	for _, c := range Cases() {
		name := c.Kernel + "/" + c.Name
		if !re.MatchString(name) {
			continue
		}
		n++
		if err := b.Check(c); err != nil {
			bad++
			if bad < 25 {
				t.Errorf("%s: %v", name, err)
			}
			if errors.Is(err, driver.ErrLost) {
				break
			}
		}
	}
	t.Logf("%d cases, %d bad", n, bad)
}
