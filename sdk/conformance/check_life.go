package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tetratelabs/wazero"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// configs are objects for the check "config".
var configs = []string{
	`{}`,
	`{"a":1}`,
	" {\n\t\"a\" : 1 ,\r\n \"b\" : [ 1 , { \"c\" : \"}\" } ] , \"d\" : { } } ",
	`{"":"","a b":" x ","ä€😀":"ä€😀"}`,
	`{"\u0061\"\\\/\b\f\n\r\t":"\u00e4\u20AC\ud83d\ude00\u0041\"\\\/\b\f\n\r\t"}`,
	`{"n":0,"o":18446744073709551615,"p":18446744073709551616,"q":-1,"r":1.0,"s":1e3,"t":99999999999999999999,"u":"1","v":184467440737095516150}`,
	`{"t":true,"f":false,"n":null,"l":[],"o":{},"deep":[[[[[[[[{"a":[{}]}]]]]]]]],"s":"]}"}`,
	`{"list":["a","\"",",",1,null,[2,3],{"k":"v"}],"quotes":"\\\\","end":"\\"}`,
}

func (k *kit) checkConfig(ctx context.Context) error {
	random := rand.New(rand.NewPCG(3, 4))
	list := configs
	for range 200 {
		list = append(list, randomObject(random, 4))
	}
	for _, about := range list {
		want, err := wantConfig(about)
		if err != nil {
			return fmt.Errorf("%s: %w", about, err)
		}
		err = k.withConfig(ctx, `{"why":"\u003f", "about":`+about+` ,"do":"\u0063onfig"}`, func(g *guest) error {
			return g.wants(ctx, "shape", new(plugin.Frame).Append(nil, plugin.HookShape), want)
		})
		if err != nil {
			return fmt.Errorf("the configuration %s: %w", about, err)
		}
	}
	return nil
}

// wantConfig is the document that do = config gives, read by another reader.
func wantConfig(about string) (string, error) {
	var b strings.Builder
	b.WriteString(`{"fields":{"x_config":[`)
	decoder := jsontext.NewDecoder(strings.NewReader(about))
	if _, err := decoder.ReadToken(); err != nil {
		return "", err
	}
	for i := 0; decoder.PeekKind() == '"'; i++ {
		token, err := decoder.ReadToken()
		if err != nil {
			return "", err
		}
		key := token.String()
		raw, err := decoder.ReadValue()
		if err != nil {
			return "", err
		}
		value := string(raw) // the next read takes its place
		text, number := "null", "null"
		if value[0] == '"' {
			plain, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return "", err
			}
			text = quote(string(plain))
		}
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			number = strconv.FormatUint(n, 10)
		}
		fmt.Fprintf(&b, `%s{"key":%s,"value":%s,"str":%s,"uint":%s,"members":%d}`, comma(i), quote(key), quote(value), text, number, countMembers(value))
	}
	b.WriteString(`]}}`)
	return b.String(), nil
}

// countMembers counts what is directly in an object or list.
func countMembers(value string) int {
	decoder := jsontext.NewDecoder(strings.NewReader(value))
	first, err := decoder.ReadToken()
	if err != nil || first.Kind() != '{' && first.Kind() != '[' {
		return 0
	}
	n := 0
	for kind := decoder.PeekKind(); kind != '}' && kind != ']'; kind = decoder.PeekKind() {
		if err := decoder.SkipValue(); err != nil {
			return n
		}
		n++
	}
	if first.Kind() == '{' {
		n /= 2 // names count as values
	}
	return n
}

// randomObject gives an object in arbitrary spelling.
func randomObject(random *rand.Rand, depth int) string {
	space := func() string { return []string{"", "", " ", "\n\t"}[random.IntN(4)] }
	var value func(depth int) string
	object := func(depth int) string {
		var members []string
		for i := range random.IntN(5) {
			members = append(members, fmt.Sprintf(`%s"k%d\u00e4"%s:%s%s%s`, space(), i, space(), space(), value(depth-1), space()))
		}
		return "{" + space() + strings.Join(members, ",") + "}"
	}
	value = func(depth int) string {
		atoms := []string{`0`, `12`, `-3.5e+7`, `true`, `null`, `""`, `"a,b:c"`, `"\"}]\\"`, `"\ud83d\ude00\n"`, `"ü"`}
		switch {
		case depth == 0 || random.IntN(2) == 0:
			return atoms[random.IntN(len(atoms))]
		case random.IntN(2) == 0:
			return object(depth)
		}
		var elements []string
		for range random.IntN(4) {
			elements = append(elements, space()+value(depth-1)+space())
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	return object(depth)
}

// checkTornConfig: no host sends a torn configuration, and none makes an init
// trap or never end.
func (k *kit) checkTornConfig(ctx context.Context) error {
	return k.with(ctx, "nothing", func(g *guest) error {
		random := rand.New(rand.NewPCG(5, 6))
		for range 3000 {
			config := []byte(`{"about":` + configs[random.IntN(len(configs))] + `,"do":"config"}`)
			for range random.IntN(4) {
				config[random.IntN(len(config))] = "{}[]\",:\\ u0\xff"[random.IntN(12)]
			}
			config = config[:random.IntN(len(config)+1)]
			if err := g.write(ctx, config); err != nil {
				return err
			}
			if _, err := g.invoke(ctx, "wasmeter_init", uint64(len(config))); err != nil {
				return fmt.Errorf("the configuration %q: %w", config, err)
			}
		}
		return nil
	})
}

func (k *kit) checkRefusal(ctx context.Context) error {
	const why = "no price for \"gold\"\nin this book"
	err := k.withConfig(ctx, `{"why":`+quote(why)+`,"do":"refuse"}`, func(*guest) error { return nil })
	if refused := (*refusal)(nil); !errors.As(err, &refused) {
		return fmt.Errorf("do = refuse: init gives %v, want a refusal", err)
	}
	n := len(k.logged)
	said := n > 0 && k.logged[n-1] == "3 "+why || n == 0 && strings.HasSuffix(k.stderr.String(), why+"\n")
	if !said {
		return fmt.Errorf("do = refuse: the log has %q and stderr %q, want the reason as the last line, at level 3 or on stderr", k.logged, &k.stderr)
	}
	// A refusal is the plugin's, not the module's end.
	return k.with(ctx, "nothing", func(*guest) error { return nil })
}

// traps wants a shape that traps, and another instance that serves.
func (k *kit) traps(ctx context.Context, do string) error {
	frame := distinctFrame().Append(nil, plugin.HookShape)
	err := k.with(ctx, do, func(g *guest) error {
		_, err := g.document(ctx, "shape", frame)
		return err
	})
	if trapped := (*trap)(nil); !errors.As(err, &trapped) {
		return fmt.Errorf("do = %s: got %v, want a trap", do, err)
	}
	return k.echoes(ctx, map[string]*plugin.Frame{"after it": distinctFrame()})
}

func (k *kit) checkTrap(ctx context.Context) error   { return k.traps(ctx, "trap") }
func (k *kit) checkMemory(ctx context.Context) error { return k.traps(ctx, "hoard") }

// checkLoop runs on the interpreter, which a deadline can stop.
func (k *kit) checkLoop(ctx context.Context) error {
	s, err := newSandbox(ctx, wazero.NewRuntimeConfigInterpreter().WithCloseOnContextDone(true), k.wasm)
	if err != nil {
		return err
	}
	g, err := s.instantiate(ctx, `{"do":"loop"}`)
	if err != nil {
		return errors.Join(err, s.close(ctx))
	}
	limited, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = g.document(limited, "shape", distinctFrame().Append(nil, plugin.HookShape))
	stopped := limited.Err() != nil
	if err == nil || !stopped {
		err = fmt.Errorf("do = loop: the call ended by itself: %v", err)
	} else {
		err = nil
	}
	return errors.Join(err, s.close(ctx))
}
