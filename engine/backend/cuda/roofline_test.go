package cuda

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/template"

	"github.com/wasmeter/wasmeter/engine/backend"
	kernels "github.com/wasmeter/wasmeter/kernels/cuda"
)

var update = flag.Bool("update", false, "rewrite kernels/cuda/ROOFLINE.md")

// gpu is a device's peaks. Sources: NVIDIA's data sheets of H200 (SXM), A100 (80 GB
// SXM) and L4; bf16 is that of the tensor cores without sparsity, f32 that of the other
// cores.
type gpu struct {
	name              string
	memory, bf16, f32 float64 // bytes and operations a second
}

var gpus = []gpu{
	{"H200", 4.8e12, 989e12, 67e12},
	{"A100 80 GB", 2.039e12, 312e12, 19.5e12},
	{"L4", 300e9, 121e12, 30.3e12},
}

// llm is a model's dimensions, from its config.json on the Hugging Face hub, with all
// matrices in one format.
type llm struct {
	name                         string
	layers, width, hidden, vocab int
	heads, kvHeads, headDim      int
	format                       kernels.Format
}

var llms = []llm{
	{name: "SmolLM2-135M Q4_1", layers: 30, width: 576, hidden: 1536, vocab: 49152, heads: 9, kvHeads: 3, headDim: 64, format: kernels.Q4_1},
	{name: "Qwen2.5-0.5B Q8_0", layers: 24, width: 896, hidden: 4864, vocab: 151936, heads: 14, kvHeads: 2, headDim: 64, format: kernels.Q8_0},
	{name: "Llama-3-8B BF16", layers: 32, width: 4096, hidden: 14336, vocab: 128256, heads: 32, kvHeads: 8, headDim: 128, format: kernels.BF16},
	{name: "Llama-3-8B Q4_K", layers: 32, width: 4096, hidden: 14336, vocab: 128256, heads: 32, kvHeads: 8, headDim: 128, format: kernels.Q4_K},
}

// list is the operations of a step, as engine/model's llama.go names them.
func (m *llm) list(t testing.TB) []op {
	matrix := func(rows, cols int) *weight {
		l, err := kernels.NewLayout(m.format, rows, cols)
		if err != nil {
			t.Fatal(err)
		}
		return &weight{layout: l}
	}
	q, kv := m.heads*m.headDim, m.kvHeads*m.headDim
	norm := &weight{layout: kernels.Layout{Rows: 1, Cols: m.width}}
	x, normed, gated := &tensor{cols: m.width}, &tensor{cols: m.width}, &tensor{cols: m.hidden}
	qkv, attended := []backend.Tensor{&tensor{cols: q}, &tensor{cols: kv}, &tensor{cols: kv}}, &tensor{cols: q}
	cache := &cache{shape: backend.KVShape{Layers: m.layers, BlockSize: 16, Heads: m.kvHeads, HeadDim: m.headDim}}
	rope := backend.Rope{Dims: m.headDim, Freqs: make([]float32, m.headDim/2)}
	embedding := matrix(m.vocab, m.width)
	l := &list{}
	l.Embed(x, embedding, 1)
	for i := range m.layers {
		l.Norm(normed, x, norm, 1e-5)
		l.MatMul(qkv, []backend.Weight{matrix(q, m.width), matrix(kv, m.width), matrix(kv, m.width)}, nil, normed)
		l.Rotate(qkv[0], m.headDim, rope)
		l.Rotate(qkv[1], m.headDim, rope)
		l.Store(cache, i, qkv[1], qkv[2])
		l.Attend(attended, qkv[0], cache, i, 1, 0)
		l.AddMatMul(x, matrix(m.width, q), attended)
		l.Norm(normed, x, norm, 1e-5)
		l.GatedMatMul(gated, matrix(m.hidden, m.width), matrix(m.hidden, m.width), normed, backend.SiLU)
		l.AddMatMul(x, matrix(m.width, m.hidden), gated)
	}
	l.Norm(normed, x, norm, 1e-5)
	l.add(op{kind: logits, w: [maxShared]*weight{embedding}, x: normed})
	return l.ops
}

// step is the fused list of a decode step.
func (m *llm) step(t *testing.T, rows int) []op {
	few := rows <= 16 // kernels.MaxNormRows
	return fuse(nil, m.list(t), conditions{few: few, fewSampled: few, singles: true, tiled: !few})
}

// cost is what an operation must move and compute at least: each weight, key and value
// read once, activations read and written. Only multiplications of matrices, and of
// queries with the cache, count as operations.
func (o *op) cost(rows, context int) (bytes, flops float64) {
	for _, w := range o.w {
		if w == nil || o.kind == embed || w.layout.Rows == 1 {
			continue
		}
		bytes += float64(w.layout.Bytes())
		flops += 2 * float64(w.layout.Rows) * float64(w.layout.Cols) * float64(rows)
		bytes += 4 * float64(rows) * float64(w.layout.Rows) // written
	}
	if o.x != nil {
		bytes += 4 * float64(rows) * float64(o.x.cols)
	}
	written := o.dst[:1]
	if o.kind == addNormNorm || o.kind == addProductNorm {
		written = o.dst[:2]
	}
	for _, t := range append([]*tensor{o.keys, o.vals}, written...) {
		if t != nil {
			bytes += 4 * float64(rows) * float64(t.cols)
		}
	}
	if o.kind == attend || o.kind == finishAttend {
		s := o.kv.shape
		bytes += float64(rows) * float64(context) * 2 * 2 * float64(s.Heads*s.HeadDim)
		flops += float64(rows) * float64(context) * 4 * float64(o.x.cols)
	}
	return bytes, flops
}

// What is assumed and was not measured.
const (
	// launchSeconds is from the end of a kernel in a graph to the beginning of the
	// next one's work.
	launchSeconds = 1.5e-6
	// reached is the part of a peak that a good kernel reaches.
	reachedMemory, reachedCompute = 0.85, 0.6
	context                       = 1024
)

// estimate is a decode step on a device.
type estimate struct {
	Model, GPU                     string
	Rows, Launches                 int
	GB                             float64 // moved
	MemoryMS, ComputeMS, LaunchMS  float64 // each alone
	StepMS, TokensPerSecond, Floor float64
	Bound                          string
}

func (m *llm) estimate(t *testing.T, g gpu, rows int) estimate {
	e := estimate{Model: m.name, GPU: g.name, Rows: rows}
	peak := g.bf16
	if rows <= 4 {
		peak = g.f32 // products of so few rows are float32
	}
	var step, floor float64
	ops := m.step(t, rows)
	for i := range ops {
		bytes, flops := ops[i].cost(rows, context)
		e.GB += bytes / 1e9
		e.MemoryMS += 1e3 * bytes / (g.memory * reachedMemory)
		e.ComputeMS += 1e3 * flops / (peak * reachedCompute)
		step += launchSeconds + max(bytes/(g.memory*reachedMemory), flops/(peak*reachedCompute))
		floor += max(bytes/g.memory, flops/peak)
	}
	e.Launches = len(ops)
	e.LaunchMS = 1e3 * launchSeconds * float64(len(ops))
	e.StepMS, e.Floor = 1e3*step, 1e3*floor
	e.TokensPerSecond = float64(rows) / step
	e.Bound = "memory"
	switch {
	case e.LaunchMS > e.MemoryMS && e.LaunchMS > e.ComputeMS:
		e.Bound = "launches"
	case e.ComputeMS > e.MemoryMS:
		e.Bound = "compute"
	}
	return e
}

var page = template.Must(template.New("").Parse(`# What a decode step should take

This page is computed, not measured: no GPU has run these kernels yet (README.md says what has). TestRooflinePage in
engine/backend/cuda makes it of the launches that the backend records and fuses for a step, the bytes of each matrix in the
kernels' layout, and the devices' peaks; ` + "`go test ./engine/backend/cuda -run Roofline -update`" + ` writes it again. When
` + "`wasmeter bench --device cuda`" + ` on such a device is far from a row here, ` + "`wasmeter selftest --device cuda`" + ` says which kernel is far from its bound.

Each sequence has a context of {{.Context}} tokens. *Bound* is the time at the peaks with launches for nothing, which no program can beat. *Expected*
takes {{.Memory}} % of the memory's peak, {{.Compute}} % of the tensor cores' (up to 4 rows: of the float32 cores', where products are exact) and
{{.Launch}} µs from one kernel of a graph to the next; these three are assumptions. *Largest part* is what most of it is.

Peaks, by NVIDIA's data sheets (bf16 without sparsity):{{range .GPUs}}
{{.}}{{end}}

| model | GPU | sequences | launches | moved | bound | expected | tokens/s | largest part |
|---|---|---|---|---|---|---|---|---|
{{range .Rows}}| {{.Model}} | {{.GPU}} | {{.Rows}} | {{.Launches}} | {{printf "%.3f" .GB}} GB | {{printf "%.3f" .Floor}} ms | {{printf "%.3f" .StepMS}} ms | {{printf "%.0f" .TokensPerSecond}} | {{.Bound}} |
{{end}}
- Small models are bound by launches wherever memory is fast: a step of SmolLM2 is 152 kernels of about a microsecond of work each. What would help is
  fewer, larger kernels, or programmatic dependent launch, which hides the gaps; neither is there.
- Llama-3-8B is bound by memory on all three, so what counts is the bytes of a weight, and how near to the peak the products of few rows come.
- With 64 sequences the weights are read once for all, and the cache becomes what is read most.
`))

// TestRooflinePage: kernels/cuda/ROOFLINE.md says what follows from the code.
func TestRooflinePage(t *testing.T) {
	var rows []estimate
	for i := range llms {
		for _, g := range gpus {
			for _, n := range []int{1, 16, 64} {
				rows = append(rows, llms[i].estimate(t, g, n))
			}
		}
	}
	var peaks []string
	for _, g := range gpus {
		peaks = append(peaks, fmt.Sprintf("- %s: %.2f TB/s, %.0f TFLOPS in bf16, %.1f in float32", g.name, g.memory/1e12, g.bf16/1e12, g.f32/1e12))
	}
	var made bytes.Buffer
	err := page.Execute(&made, map[string]any{
		"Context": context, "Memory": int(100 * reachedMemory), "Compute": int(100 * reachedCompute), "Launch": launchSeconds * 1e6, "GPUs": peaks, "Rows": rows,
	})
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../../kernels/cuda/ROOFLINE.md"
	if *update {
		if err := os.WriteFile(path, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, made.Bytes()) {
		t.Errorf("%s is not what the code makes; go test ./engine/backend/cuda -run Roofline -update writes it", path)
	}
}

// TestCostsByHand: of one product, and of the weights that a step of Llama-3-8B reads.
func TestCostsByHand(t *testing.T) {
	l, err := kernels.NewLayout(kernels.BF16, 4096, 14336)
	if err != nil {
		t.Fatal(err)
	}
	o := op{kind: addProduct, x: &tensor{cols: 14336}, w: [maxShared]*weight{{layout: l}}, dst: [maxShared]*tensor{{cols: 4096}}}
	bytes, flops := o.cost(2, 0)
	if wantBytes, wantFLOPs := 2*4096.0*14336+2*4*(14336+2*4096), 2*2*4096.0*14336; bytes != wantBytes || flops != wantFLOPs {
		t.Errorf("%g bytes and %g operations, want %g and %g", bytes, flops, wantBytes, wantFLOPs)
	}
	// 8.03 billion parameters, of which the embedding's 0.53 are not read: 15.0 GB, and
	// a context of 1024 positions has 0.13 GB of keys and values.
	if e := llms[2].estimate(t, gpus[0], 1); e.GB < 15.0 || e.GB > 15.2 || e.Launches != 32*5+2 {
		t.Errorf("%.3f GB in %d launches, want 15.0 … 15.2 in 162", e.GB, e.Launches)
	}
}

// BenchmarkListOfStep: what the host does of a step of 30 layers before a graph is
// launched, the comparison with the graph's list included.
func BenchmarkListOfStep(b *testing.B) {
	want := llms[0].list(b)
	l := &list{}
	b.ReportAllocs()
	for b.Loop() {
		l.reset()
		for i := range want {
			l.add(want[i])
		}
		if !slices.Equal(l.ops, want) {
			b.Fatal("the lists differ")
		}
	}
}

// BenchmarkFuse fuses the same list.
func BenchmarkFuse(b *testing.B) {
	list := llms[0].list(b)
	var fused []op
	b.ReportAllocs()
	for b.Loop() {
		fused = fuse(fused[:0], list, conditions{few: true, fewSampled: true, singles: true})
	}
}
