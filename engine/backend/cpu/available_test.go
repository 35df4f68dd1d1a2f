package cpu

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// system is a machine with 8 GiB free, in a control group.
func system(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n")}}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestAvailableMemory(t *testing.T) {
	const gib = 1 << 30
	own := "0::/pod/box\n"
	for _, c := range []struct {
		name   string
		system fstest.MapFS
		free   uint64
		from   string
	}{
		{"another system", fstest.MapFS{}, 0, ""},
		{"no group", system(nil), 8 * gib, "machine"},
		{"no limit", system(map[string]string{"proc/self/cgroup": own, "sys/fs/cgroup/pod/box/memory.max": "max\n", "sys/fs/cgroup/pod/box/memory.current": "5\n"}), 8 * gib, "machine"},
		{"a limit", system(map[string]string{"proc/self/cgroup": own,
			"sys/fs/cgroup/pod/box/memory.max": "4294967296\n", "sys/fs/cgroup/pod/box/memory.current": "3221225472\n",
			"sys/fs/cgroup/pod/box/memory.stat": "anon 1\ninactive_file 2147483648\n"}), 3 * gib, "4.00 GiB on the control group"},
		{"a limit of a group above", system(map[string]string{"proc/self/cgroup": own,
			"sys/fs/cgroup/pod/memory.max": "2147483648\n", "sys/fs/cgroup/pod/memory.current": "1073741824\n"}), gib, "2.00 GiB"},
		{"version 1", system(map[string]string{"proc/self/cgroup": "3:cpu,memory:/box\n1:name=systemd:/\n",
			"sys/fs/cgroup/memory/box/memory.limit_in_bytes": "4294967296\n", "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "2147483648\n",
			"sys/fs/cgroup/memory/box/memory.stat": "inactive_file 5\ntotal_inactive_file 1073741824\n"}), 3 * gib, "4.00 GiB on the control group"},
		{"over the limit", system(map[string]string{"proc/self/cgroup": own,
			"sys/fs/cgroup/pod/box/memory.max": "1073741824\n", "sys/fs/cgroup/pod/box/memory.current": "1173741824\n"}), 0, "1.00 GiB"},
		{"a limit beyond the machine", system(map[string]string{"proc/self/cgroup": "1:cpu:/x\n" + own,
			"sys/fs/cgroup/pod/box/memory.max": "99999999999999\n", "sys/fs/cgroup/pod/box/memory.current": "1\n"}), 8 * gib, "machine"},
	} {
		if free, from := availableMemory(c.system); free != c.free || !strings.Contains(from, c.from) || (from == "") != (c.from == "") {
			t.Errorf("%s: %d bytes by %q, want %d by …%s…", c.name, free, from, c.free, c.from)
		}
	}
}

func TestPlan(t *testing.T) {
	b, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.system = system(nil)
	// 4.5 bits become 4.625 in FormQ4_K: 2^34 weights are 9.25 GiB, of which 8 are free.
	large := gguf.Tensor{Name: "a", Type: gguf.Q4_K, Shape: []uint64{1 << 17, 1 << 17}}
	if err := b.Plan([]gguf.Tensor{large}); err == nil || !strings.Contains(err.Error(), "9.25 GiB") || !strings.Contains(err.Error(), "8.00 GiB are free") {
		t.Errorf("weights of 9.25 GiB where 8 are free: error %v, want one with both", err)
	}
	half := gguf.Tensor{Name: "b", Type: gguf.Q4_K, Shape: []uint64{1 << 17, 1 << 16}}
	vector := gguf.Tensor{Name: "c", Type: gguf.F32, Shape: []uint64{1 << 17}}
	if err := b.Plan([]gguf.Tensor{half, vector}); err != nil {
		t.Errorf("weights of 4.63 GiB where 8 are free: %v", err)
	}
	if err := b.Plan([]gguf.Tensor{half, half}); err == nil {
		t.Error("two tensors of 4.63 GiB where 8 are free: no error")
	}
	b.system = fstest.MapFS{}
	if err := b.Plan([]gguf.Tensor{large}); err != nil {
		t.Errorf("a system that does not say what is free: %v", err)
	}
}

// What Plan counts is what loading takes.
func TestLoadedBytes(t *testing.T) {
	b, err := New(Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, dtype := range []gguf.DType{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0, gguf.Q5_0, gguf.Q4_K, gguf.Q6_K} {
		tensor := gguf.Tensor{Name: "a", Type: dtype, Shape: []uint64{256, 17}, Data: make([]byte, 17*dtype.RowBytes(256))}
		w, err := b.newWeight(tensor)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(w.packed)+4*len(w.floats), loadedBytes(tensor); uint64(got) != want {
			t.Errorf("%s: %d bytes are taken, %d were counted", dtype, got, want)
		}
	}
}
