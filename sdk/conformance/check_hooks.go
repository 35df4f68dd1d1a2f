package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// checkAnswer: everything that a shape can answer, in one document.
func (k *kit) checkAnswer(ctx context.Context) error {
	return k.with(ctx, "answer", func(g *guest) error {
		f := distinctFrame()
		f.Tenant, f.Model = "ac\"me", "mo\xffdel"
		const want = `{"fields":{"x_n":2,"x_open":{}},"usage":{"x_model":"mo` + "\uFFFD" + `del"},"headers":{"x-tenant":"ac\"me"},"carry":"ac\"me"}`
		return g.wants(ctx, "shape", f.Append(nil, plugin.HookShape), want)
	})
}

func (k *kit) checkRequest(ctx context.Context) error {
	return k.with(ctx, "nothing", func(g *guest) error {
		f := distinctFrame()
		const head = `{"headers":{"x-tenant":"acme"},"carry":"acme",`
		accepted := g.wants(ctx, "request", f.Append(nil, plugin.HookRequest), head+`"priority":-7,"deadline_ms":117}`)
		f.Prompts = 0
		denied := g.wants(ctx, "request", f.Append(nil, plugin.HookRequest),
			head+`"deny":{"status":429,"code":"denied","message":"no prompts","retry_after":113}}`)
		f.MaxTokens = 0
		forEver := g.wants(ctx, "request", f.Append(nil, plugin.HookRequest), head+`"deny":{"status":429,"code":"denied","message":"no prompts"}}`)
		return errors.Join(accepted, denied, forEver)
	})
}

func (k *kit) checkChunk(ctx context.Context) error {
	return k.with(ctx, "nothing", func(g *guest) error {
		var faults []error
		for _, document := range []string{`{"id":1}`, `{"text":"` + strings.Repeat("x", 200_000) + `"}`, `[]`} {
			f := &plugin.Frame{Document: []byte(document)}
			faults = append(faults, g.wants(ctx, "chunk", f.Append(nil, plugin.HookChunk), `{"document":`+document+`}`))
		}
		return errors.Join(faults...)
	})
}

// needImports skips a check of imports that the guest can do without.
func (k *kit) needImports() error {
	for _, name := range []string{"log", "emit", "metric_add", "metric_observe", "kv_get", "kv_set", "kv_add", "now_unix_ns"} {
		if !k.imports(name) {
			return fmt.Errorf("the guest does not import wasmeter_v1.%s", name)
		}
	}
	return nil
}

// finishes calls the hook finish and compares its result, what it called and
// the beginning of the log: of a failure a guest may say more.
func (k *kit) finishes(ctx context.Context, do string, f *plugin.Frame, result func(int32) bool, logged, called []string) error {
	if err := k.needImports(); err != nil {
		return err
	}
	return k.with(ctx, do, func(g *guest) error {
		k.did, k.logged = nil, nil
		got, err := g.finish(ctx, f.Append(nil, plugin.HookFinish))
		if err != nil {
			return err
		}
		if !result(got) {
			err = fmt.Errorf("finish returns %d", got)
		}
		began := k.logged
		if got < 0 {
			began = began[:min(len(began), len(logged))]
		}
		return errors.Join(err, same("what was called", k.did, called), same("the log", began, logged))
	})
}

func succeeds(code int32) bool { return code == 0 }
func fails(code int32) bool    { return code < 0 }

func (k *kit) checkImports(ctx context.Context) error {
	var faults []error
	for name, c := range map[string]struct {
		value, want string // of kv_get
		delta       int64
	}{
		"short value":   {"va\"lue", `"va\"lue"`, 5},
		"empty value":   {"", `""`, -5},
		"long value":    {strings.Repeat("v", 100_000), `"` + strings.Repeat("v", 100_000) + `"`, math.MinInt64 + 7},
		"another":       {"v", `"v"`, math.MaxInt64},
		"lowest number": {"v", `"v"`, math.MinInt64},
	} {
		k.clear()
		k.values["acme"], k.now = c.value, 1<<60+1
		f := distinctFrame()
		f.DeviceNS = uint64(c.delta)
		err := k.finishes(ctx, "nothing", f, succeeds, []string{"3 acme"}, []string{
			`emit -7 {"tenant":"acme","tokens":102}`,
			`metric_add 2 3 50.5`,
			`metric_observe 2 3 50.5`,
			`kv_set acme = model for 113`,
			fmt.Sprintf(`kv_add acme + %d for 113`, c.delta),
			fmt.Sprintf(`emit 0 {"emit":0,"metric_add":0,"metric_observe":0,"kv_set":0,"kv_get":%s,"kv_add":%d,"now_unix_ns":1152921504606846977}`, c.want, c.delta),
		})
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(faults...)
}

func (k *kit) checkFailingImports(ctx context.Context) error {
	var faults []error
	for code := int32(-6); code <= -1; code++ {
		k.clear()
		k.failure = code
		value := fmt.Sprint(code)
		if code == codeAbsent {
			value = "null"
		}
		err := k.finishes(ctx, "nothing", distinctFrame(), fails, []string{"3 acme"}, []string{
			`emit -7 {"tenant":"acme","tokens":102}`,
			`metric_add 2 3 50.5`,
			`metric_observe 2 3 50.5`,
			`kv_set acme = model for 113`,
			`kv_add acme + 123 for 113`,
			fmt.Sprintf(`emit 0 {"emit":%d,"metric_add":%d,"metric_observe":%d,"kv_set":%d,"kv_get":%s,"kv_add":%d,"now_unix_ns":0}`, code, code, code, code, value, code),
		})
		if err != nil {
			faults = append(faults, fmt.Errorf("imports that give %d: %w", code, err))
		}
	}
	return errors.Join(faults...)
}

// checkBadPointers: what a host refuses leaves the guest whole.
func (k *kit) checkBadPointers(ctx context.Context) error {
	k.values["acme"] = "value"
	return k.finishes(ctx, "bad", distinctFrame(), succeeds, nil, []string{
		`emit 0 {"emit":-4,"kv_get_key":-4,"kv_get_buffer":-4,"kv_set_key":-4,"kv_set_value":-4,"kv_add":-4}`,
	})
}
