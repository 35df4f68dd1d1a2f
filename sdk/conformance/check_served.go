package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// served is the guest in the server's own host, which all checks share, since
// it keeps what it has compiled.
type served struct {
	host   *plugin.Host
	cache  string // a folder of the run's own
	chain  *plugin.Chain
	kv     *plugin.MemoryKV
	log    bytes.Buffer
	sample []plugin.Sample
}

// fuel is more than the server gives by default: a Go guest that fills its
// memory until it has none uses half of it.
const fuel = 200_000_000

// inServer loads the guest with all it may be granted, and runs use.
func (k *kit) inServer(ctx context.Context, do string, use func(*served) error) (err error) {
	s := &k.served
	if s.host == nil {
		if s.cache, err = os.MkdirTemp("", "conformance"); err != nil {
			return err
		}
		s.kv = plugin.NewMemoryKV()
		s.host, err = plugin.NewHost(ctx, plugin.Options{
			Logger:  slog.New(slog.NewTextHandler(&s.log, nil)),
			Sampled: func(sample plugin.Sample) { s.sample = append(s.sample, sample) },
			KV:      s.kv, CacheDir: s.cache,
		})
		if err != nil {
			return err
		}
	}
	s.log.Reset()
	s.sample = nil
	p, err := s.host.Load(ctx, plugin.Spec{
		Name: "guest", Wasm: k.wasm, Config: []byte(`{"do":` + quote(do) + `}`), OnError: plugin.Closed, Fuel: fuel,
		Grants: plugin.Grants{
			Fields: []string{"x_*"}, UsageExtend: []string{"x_model"}, Headers: []string{"x-tenant"},
			Emit: true, Metrics: true, Clock: true, KVRead: true, KVWrite: true,
			ReadRequest: true, ReadResponse: true, ContentEgress: true, Rewrite: true, Deny: true,
		},
		Metrics: []plugin.Metric{
			{Name: "first"}, {Name: "second"},
			{Name: "tokens", Labels: []plugin.Label{{Name: "tier", Values: []string{"a", "b", "c", "d"}}}},
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	if s.chain, err = plugin.NewChain(p); err != nil {
		return err
	}
	return use(s)
}

var chainID = regexp.MustCompile(`"[0-9a-f]{32}"`)

// checkServed: the server takes what the guest answers, in each hook.
func (k *kit) checkServed(ctx context.Context) error {
	shape := k.inServer(ctx, "echo", func(s *served) error {
		f := distinctFrame()
		f.Carry = "" // it comes from earlier hooks, of which there are none
		shaped, err := s.chain.Shape(ctx, f, new(plugin.State))
		if err != nil {
			return err
		}
		// The server's own name for the chain stands in the frame.
		got := chainID.ReplaceAllString(string(shaped.Members), `"chain"`)
		want := wantEcho(f, plugin.HookShape)
		return differ("shape", got, want[len(`{"fields":{`):len(want)-len("}}")])
	})
	others := k.inServer(ctx, "answer", func(s *served) error {
		state, f := new(plugin.State), distinctFrame()
		shaped, err := s.chain.Shape(ctx, f, state)
		if err != nil {
			return fmt.Errorf("shape: %w", err)
		}
		got := fmt.Sprintf("%s %s %+v", shaped.Members, shaped.Usage, shaped.Headers)
		if err := differ("answer", got, `"x_n":2,"x_open":{} "x_model":"model" [{Name:x-tenant Value:acme}]`); err != nil {
			return err
		}
		f.Prompts = 0
		verdict, err := s.chain.Request(ctx, f, state)
		if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if deny := verdict.Deny; deny == nil || deny.Status != 429 || deny.Code != "denied" || deny.Message != "no prompts" {
			return fmt.Errorf("request: got the verdict %+v, want a denial", verdict)
		}
		chunk := []byte(`{"object":"chat.completion.chunk"}`)
		sent, err := s.chain.Chunk(ctx, f, state, chunk)
		if err != nil {
			return fmt.Errorf("chunk: %w", err)
		}
		return differ("chunk", string(sent), string(chunk))
	})
	return errors.Join(shape, others)
}

// checkServedImports: the server's imports answer as the ABI says, good
// pointers and bad ones.
func (k *kit) checkServedImports(ctx context.Context) error {
	if err := k.needImports(); err != nil {
		return err
	}
	finish := func(do string, want func(f *plugin.Frame, s *served, records []plugin.Record) error) error {
		return k.inServer(ctx, do, func(s *served) error {
			if err := s.kv.Write([]plugin.Write{{Plugin: "guest", Key: []byte("acme"), Value: []byte("12345678")}}); err != nil {
				return err
			}
			f := distinctFrame()
			finished := s.chain.Finish(ctx, f, new(plugin.State))
			if len(finished.Failed) > 0 {
				return finished.Failed[0]
			}
			return want(f, s, finished.Records)
		})
	}
	good := finish("nothing", func(f *plugin.Frame, s *served, records []plugin.Record) error {
		if len(records) != 2 || records[0].Kind != f.Priority || string(records[0].Data) != `{"tenant":"acme","tokens":102}` {
			return fmt.Errorf("finish emits %+v, want two records", records)
		}
		// kv_add reads what kv_set has written: "model" has 5 bytes and is no
		// counter. The clock is any.
		got := string(records[1].Data)
		const want = `{"emit":0,"metric_add":0,"metric_observe":-2,"kv_set":0,"kv_get":"model","kv_add":-2,"now_unix_ns":`
		if !strings.HasPrefix(got, want) {
			return fmt.Errorf("finish emits %s, want %s…", got, want)
		}
		if len(s.sample) != 1 || s.sample[0].Series != 3 || s.sample[0].Value != 50.5 {
			return fmt.Errorf("finish counts %+v, want 50.5 in series 3", s.sample)
		}
		if !strings.Contains(s.log.String(), `level=ERROR msg="plugin log" plugin=guest text=acme`) {
			return fmt.Errorf("the log has %q, want a line of the guest", &s.log)
		}
		return nil
	})
	bad := finish("bad", func(_ *plugin.Frame, s *served, records []plugin.Record) error {
		const want = `{"emit":-4,"kv_get_key":-4,"kv_get_buffer":-4,"kv_set_key":-4,"kv_set_value":-4,"kv_add":-4}`
		if len(records) != 1 {
			return fmt.Errorf("bad pointers: finish emits %+v, want one record", records)
		}
		if s.log.Len() > 0 {
			return fmt.Errorf("bad pointers: the log has %q, want nothing", &s.log)
		}
		return differ("bad pointers", string(records[0].Data), want)
	})
	return errors.Join(good, bad)
}

// checkServedFailures: a call that does not end well is a failure of the right
// kind, and so is the next, of another instance.
func (k *kit) checkServedFailures(ctx context.Context) error {
	var faults []error
	for do, kind := range map[string]plugin.FailureKind{
		"trap": plugin.FailureTrap, "loop": plugin.FailureOutOfFuel, "hoard": plugin.FailureMemory,
	} {
		err := k.inServer(ctx, do, func(s *served) error {
			for range 2 {
				_, err := s.chain.Shape(ctx, distinctFrame(), new(plugin.State))
				if failure := (*plugin.Failure)(nil); !errors.As(err, &failure) || failure.Kind != kind {
					return fmt.Errorf("do = %s: got %v, want a failure of kind %s", do, err, kind)
				}
			}
			return nil
		})
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
