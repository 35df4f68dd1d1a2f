package host

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wasmeter/wasmeter/engine/backend"
	"github.com/wasmeter/wasmeter/engine/model"
)

// fragile is a model whose device can be lost.
type fragile struct {
	model.Model
	lost atomic.Bool
}

func (m *fragile) Forward(b *backend.Batch) ([]float32, error) {
	if m.lost.Load() {
		return nil, fmt.Errorf("step 7: %w", backend.ErrLost)
	}
	return m.Model.Forward(b)
}

// TestLostDevice: a server without its device says so to who asks for its health
// and to clients, and lives on so that it can be asked.
func TestLostDevice(t *testing.T) {
	device := &fragile{}
	f := serve(t, func(u *setup) {
		u.model = func(m model.Model) model.Model { device.Model = m; return device }
	})
	if r := f.do("GET", "/health/ready", ""); r.status != 200 {
		t.Fatalf("before: ready %d", r.status)
	}
	device.lost.Store(true)
	if r := f.do("POST", "/v1/chat/completions", chatBody("")); r.status != 503 || !strings.Contains(r.body, "device_lost") {
		t.Errorf("the request that meets it: %d %s, want 503 with device_lost", r.status, r.body)
	}
	for path, want := range map[string]int{"/health": 503, "/health/ready": 503, "/health/live": 200} {
		if r := f.do("GET", path, ""); r.status != want {
			t.Errorf("%s: %d, want %d", path, r.status, want)
		}
	}
	if r := f.do("POST", "/v1/chat/completions", chatBody("")); r.status != 503 || at(decode(t, r.body), "error", "code") != "device_lost" {
		t.Errorf("a request after it: %d %s, want 503 with device_lost", r.status, r.body)
	}
}
