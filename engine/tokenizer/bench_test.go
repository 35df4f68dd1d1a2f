package tokenizer

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// Texts of about 8 KB for the benchmarks.
func benchTexts() map[string]string {
	repeat := func(s string) string { return strings.Repeat(s, 8192/len(s)) }
	return map[string]string{
		"english": repeat("The scheduler admits requests by token budget; nobody waits behind a long prompt, because prompts are cut into chunks. "),
		"code":    repeat("func (s *Server) handle(w http.ResponseWriter, r *http.Request) {\n\tif err := s.limit.Wait(r.Context()); err != nil {\n\t\treturn 429\n\t}\n}\n"),
		"korean":  repeat("스케줄러는 토큰 예산에 따라 요청을 받아들이며, 긴 프롬프트는 나누어 처리합니다. "),
		"hostile": repeat("a"),
	}
}

// benchModels are real tokenizers of both families.
var benchModels = []struct{ name, file, target string }{
	{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "model"},
	{"gemma3", "gemma-3-270m.Q4_K_M.gguf", "model-gemma"},
}

func BenchmarkEncode(b *testing.B) {
	for _, m := range benchModels {
		for name, text := range benchTexts() {
			b.Run(m.name+"/"+name, func(b *testing.B) {
				tok := realTokenizer(b, m.file, m.target)
				ids := make([]int32, 0, 2*len(text))
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					ids = tok.Encode(ids[:0], text, Parsed)
				}
				b.ReportMetric(float64(len(ids))*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
	}
}

func BenchmarkFromGGUF(b *testing.B) {
	for _, m := range benchModels {
		b.Run(m.name, func(b *testing.B) {
			realTokenizer(b, m.file, m.target) // skips without the model
			f, err := gguf.Open("../../models/" + m.file)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromGGUF(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
