package host

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/chat"
	"github.com/wasmeter/wasmeter/host/openai"
)

func TestChat(t *testing.T) {
	f := serve(t, nil)
	v := f.chat(`"max_tokens":7`)
	text, _ := at(v, "choices", 0, "message", "content").(string)
	if len(text) != 7 || at(v, "choices", 0, "finish_reason") != "length" {
		t.Errorf("text %q, finish %v; want 7 bytes and length", text, at(v, "choices", 0, "finish_reason"))
	}
	// <|im_start|>user\nfox<|im_end|>\n<|im_start|>assistant\n, a byte or a control token each
	if at(v, "usage", "prompt_tokens") != float64(1+8+1+1+1+10) || at(v, "usage", "completion_tokens") != 7. || at(v, "usage", "total_tokens") != 29. {
		t.Errorf("usage %v", v["usage"])
	}
	if id, _ := v["id"].(string); !strings.HasPrefix(id, "chatcmpl-") {
		t.Errorf("id %q", id)
	}
	m, _ := v["metrics"].(map[string]any)
	for _, k := range []string{"time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second"} {
		if n, ok := m[k].(float64); !ok || n < 0 {
			t.Errorf("metrics.%s is %v", k, m[k])
		}
	}
}

func TestChatStream(t *testing.T) {
	f := serve(t, nil)
	plain := f.chat(`"max_tokens":9`)
	for _, c := range []struct {
		name, options string
		usage         bool
	}{
		{"no usage", "", false},
		{"usage refused", `,"stream_options":{"include_usage":false}`, false},
		{"usage", `,"stream_options":{"include_usage":true}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":9,"stream":true`+c.options)))
			text := ""
			for i, v := range got {
				if _, ok := v["metrics"]; ok && (i != len(got)-1 || !c.usage) {
					t.Errorf("metrics on chunk %d of %d: %v", i, len(got), v)
				}
				if s, ok := at(v, "choices", 0, "delta", "content").(string); ok {
					text += s
				}
			}
			if text != at(plain, "choices", 0, "message", "content") {
				t.Errorf("streamed %q, plain %v", text, at(plain, "choices", 0, "message", "content"))
			}
			if at(got[0], "choices", 0, "delta", "role") != "assistant" {
				t.Errorf("first chunk %v", got[0])
			}
			last := got[len(got)-1]
			if !c.usage {
				if at(last, "choices", 0, "finish_reason") != "length" {
					t.Errorf("last chunk %v", last)
				}
				return
			}
			if l, _ := last["choices"].([]any); len(l) != 0 || at(last, "usage", "completion_tokens") != 9. {
				t.Errorf("usage chunk %v", last)
			}
			if _, ok := at(last, "metrics", "tokens_per_second").(float64); !ok {
				t.Errorf("usage chunk without metrics: %v", last)
			}
		})
	}
}

// TestMetricsRules: what the documented rules say of a whole answer. The
// formulas are tested with the plugin.
func TestMetricsRules(t *testing.T) {
	on := serve(t, nil)
	t.Run("several choices are null", func(t *testing.T) {
		v := on.chat(`"n":2,"max_tokens":3`)
		if m, ok := v["metrics"]; !ok || m != nil {
			t.Errorf("metrics %v, want null and there", m)
		}
		if at(v, "usage", "completion_tokens") != 6. {
			t.Errorf("usage %v, want 6 tokens of both", v["usage"])
		}
	})
	t.Run("one token", func(t *testing.T) {
		v := on.chat(`"max_tokens":1`)
		if m, ok := at(v, "metrics").(map[string]any); !ok || m["mean_itl_ms"] != nil || m["generation_time_ms"] != 0. || m["tokens_per_second"] == nil {
			t.Errorf("metrics %v, want null mean_itl_ms and 0 generation_time_ms", v["metrics"])
		}
	})
	t.Run("identities", func(t *testing.T) {
		m := at(on.chat(`"max_tokens":20`), "metrics")
		ttft, gen := at(m, "time_to_first_token_ms").(float64), at(m, "generation_time_ms").(float64)
		if want, got := 20/(ttft+gen)*1000, at(m, "tokens_per_second").(float64); got/want < 1-5e-7 || got/want > 1+5e-7 {
			t.Errorf("tokens_per_second %v, want %v", got, want)
		}
	})
	t.Run("switched off", func(t *testing.T) {
		off := serve(t, func(u *setup) { u.options.Metrics.PerRequest = false })
		if v, ok := off.chat(`"max_tokens":2`)["metrics"]; ok {
			t.Errorf("metrics %v without the flag", v)
		}
	})
	t.Run("no timing data", func(t *testing.T) {
		// log_stats false with per_request true is refused at start; timing that
		// is unknown for another reason gives nulls.
		f := serve(t, nil)
		f.Server.options.Metrics.LogStats = false
		m, ok := f.chat(`"max_tokens":2`)["metrics"].(map[string]any)
		if !ok || len(m) != 5 {
			t.Fatalf("metrics %v, want five nulls", m)
		}
		for k, v := range m {
			if v != nil {
				t.Errorf("%s is %v, want null", k, v)
			}
		}
	})
	t.Run("usage forced", func(t *testing.T) {
		f := serve(t, func(u *setup) { u.options.Metrics.ForceIncludeUsage = "final" })
		got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":3,"stream":true`)))
		if at(got[len(got)-1], "metrics", "tokens_per_second") == nil {
			t.Errorf("last chunk %v, want usage with metrics", got[len(got)-1])
		}
		for _, v := range got[:len(got)-1] {
			if v["usage"] != nil {
				t.Errorf("usage on an earlier chunk: %v", v)
			}
		}
	})
	t.Run("usage forced on every chunk", func(t *testing.T) {
		f := serve(t, func(u *setup) { u.options.Metrics.ForceIncludeUsage = "continuous" })
		got := chunks(t, f.do("POST", "/v1/chat/completions", chatBody(`"max_tokens":3,"stream":true`)))
		before := -1.
		for i, v := range got {
			n, ok := at(v, "usage", "completion_tokens").(float64)
			if !ok || n < before {
				t.Errorf("chunk %d of %d has usage %v after %v tokens", i, len(got), v["usage"], before)
			}
			before = n
		}
	})
	t.Run("errors have none", func(t *testing.T) {
		if r := on.do("POST", "/v1/chat/completions", chatBody(`"n":0`)); r.status != 400 || strings.Contains(r.body, "metrics") {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// TestTemplateErrors: what a template refuses is the client's to mend, as in vLLM; where the template itself fails, it is not.
func TestTemplateErrors(t *testing.T) {
	tests := []struct {
		name, template, variables, want string
		status                          int
	}{
		{"raised", "{{ raise_exception('roles must alternate') }}", "", "roles must alternate", http.StatusBadRequest},
		{"raised in a macro", "{% macro f() %}{{ raise_exception('no') }}{% endmacro %}{{ f() }}", "", "refuses the conversation: no", http.StatusBadRequest},
		{"variables", "x", "[1]", "template variables", http.StatusBadRequest},
		{"no such method", "{{ 'x'.nope() }}", "", "tokenizer.chat_template", http.StatusInternalServerError},
		{"undefined", "\n{{ a.b }}", "", "tokenizer.chat_template: line 2: a is undefined", http.StatusInternalServerError},
		{"no end", "{% if messages | length > 1 %}{{ 'x' * 10 ** 12 }}{% endif %}", "", "tokenizer.chat_template", http.StatusInternalServerError},
	}
	for _, tt := range tests {
		template, err := chat.New(chat.Options{Template: tt.template})
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{parts: Parts{Template: template}}
		_, err = s.chatPrompt([]openai.Message{{Role: "user"}, {Role: "user"}}, []byte(tt.variables), true, false)
		var api *openai.Error
		if !errors.As(err, &api) || api.Status != tt.status || !strings.Contains(api.Message, tt.want) {
			t.Errorf("%s: got %+v, want a %d with %q", tt.name, err, tt.status, tt.want)
		}
	}
}
