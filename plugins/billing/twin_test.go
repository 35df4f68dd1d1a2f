package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// twinBook is a configuration as encoding/json reads it.
type twinBook struct {
	Scale   *int
	Models  []map[string]json.RawMessage
	Default map[string]json.RawMessage
	Classes []struct {
		Class  string
		Pays   int64
		Models []string
	}
	Windows []struct {
		Name, From, To string
		Days, Models   []string
		Pays           int64
	}
}

func twinCovers(patterns []string, model string) bool {
	for _, p := range patterns {
		if p == model || strings.HasSuffix(p, "*") && strings.HasPrefix(model, p[:len(p)-1]) {
			return true
		}
	}
	return len(patterns) == 0
}

// number is a member of an entry as a rational, or fallback.
func number(t testing.TB, entry map[string]json.RawMessage, name string, fallback *big.Rat) *big.Rat {
	text, found := entry[name]
	if !found {
		return fallback
	}
	n, ok := new(big.Rat).SetString(string(text))
	if !ok {
		t.Fatalf("%s is no number", text)
	}
	return n
}

// twinCost prices a request that has completed, in rationals and as slowly as it
// reads.
func twinCost(t testing.TB, config string, frame *plugin.Frame) string {
	t.Helper()
	var book twinBook
	if err := json.Unmarshal([]byte(config), &book); err != nil {
		t.Fatal(err)
	}
	entry, length := book.Default, -1
	for _, m := range book.Models {
		var model string
		if err := json.Unmarshal(m["model"], &model); err != nil {
			t.Fatal(err)
		}
		prefix, wild := strings.CutSuffix(model, "*")
		switch {
		case model == frame.Model:
			entry, length = m, 1<<30
		case wild && strings.HasPrefix(frame.Model, prefix) && len(prefix) > length:
			entry, length = m, len(prefix)
		}
	}
	zero := new(big.Rat)
	tokens := entry
	var tiers []map[string]json.RawMessage
	if text, found := entry["tiers"]; found {
		if err := json.Unmarshal(text, &tiers); err != nil {
			t.Fatal(err)
		}
	}
	for _, tier := range tiers {
		if number(t, tier, "above", nil).Cmp(big.NewRat(int64(frame.PromptTokens), 1)) < 0 {
			tokens = tier
		}
	}
	sum := new(big.Rat)
	add := func(count uint64, price *big.Rat, per int64) {
		part := new(big.Rat).SetInt(new(big.Int).SetUint64(count))
		part.Mul(part, price).Mul(part, big.NewRat(1, per))
		sum.Add(sum, part)
	}
	inputPrice, outputPrice := number(t, tokens, "input", nil), number(t, tokens, "output", nil)
	left := frame.PromptTokens
	for _, part := range []struct {
		name   string
		tokens uint32
	}{{"cached_input", frame.CachedPromptTokens}, {"cache_write", frame.CacheWriteTokens}, {"image", frame.ImageTokens}, {"audio", frame.AudioTokens}} {
		n := min(left, part.tokens)
		left -= n
		add(uint64(n), number(t, tokens, part.name, inputPrice), 1_000_000)
	}
	add(uint64(left), inputPrice, 1_000_000)
	thought := min(frame.ReasoningTokens, frame.CompletionTokens)
	add(uint64(thought), number(t, tokens, "reasoning", outputPrice), 1_000_000)
	add(uint64(frame.CompletionTokens-thought), outputPrice, 1_000_000)
	add(1, number(t, entry, "request", zero), 1)
	add(uint64(frame.ToolCalls), number(t, entry, "tool_call", zero), 1)
	add(frame.DeviceNS, number(t, entry, "device_second", zero), 1_000_000_000)

	asked := frame.ServiceTier
	if frame.Flags&plugin.FlagBatch != 0 {
		asked = "batch"
	}
	for _, c := range book.Classes {
		if c.Class == asked && twinCovers(c.Models, frame.Model) {
			sum.Mul(sum, big.NewRat(c.Pays, 10_000))
			break
		}
	}
	for _, w := range book.Windows {
		if twinCovers(w.Models, frame.Model) && twinOpen(t, w.From, w.To, w.Days, frame.ArrivalUnixNS) {
			sum.Mul(sum, big.NewRat(w.Pays, 10_000))
			break
		}
	}
	if least := number(t, entry, "minimum", zero); sum.Cmp(least) < 0 {
		sum = least
	}
	places := 6
	if book.Scale != nil {
		places = *book.Scale
	}
	// From micro-units to the last place, and half up.
	factor := new(big.Rat).SetFrac(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil), big.NewInt(1_000_000))
	sum = new(big.Rat).Mul(sum, factor)
	sum.Add(sum, big.NewRat(1, 2))
	return decimalTwin(new(big.Int).Div(sum.Num(), sum.Denom()), places)
}

func twinOpen(t testing.TB, from, to string, days []string, at uint64) bool {
	w := window{}
	for text, minutes := range map[string]*uint32{from: &w.from, to: &w.to} {
		var h, m uint32
		if _, err := fmt.Sscanf(text, "%d:%d", &h, &m); err != nil {
			t.Fatal(err)
		}
		*minutes = h*60 + m
	}
	for _, name := range days {
		w.days = append(w.days, day(strings.Index("mon tue wed thu fri sat sun", name)/4))
	}
	return openTwin(&w, time.Unix(int64(at/1e9), int64(at%1e9)).UTC())
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// randomBook writes a configuration that is right.
func randomBook(r *rand.Rand) string {
	price := func() uint64 { return r.Uint64N(10) * r.Uint64N(1<<r.Uint64N(36)) }
	parts := []string{"cached_input", "cache_write", "image", "audio", "reasoning"}
	entry := func(model string) string {
		var named []string
		for _, p := range parts {
			if r.IntN(2) == 0 {
				named = append(named, p)
			}
		}
		prices := func() string {
			text := fmt.Sprintf(`"output":%d,"input":%d`, price(), price())
			for _, p := range named {
				text = fmt.Sprintf(`"%s":%d,%s`, p, price(), text)
			}
			return text
		}
		text := "{" + model + prices()
		for _, fee := range []string{"request", "tool_call"} {
			if r.IntN(3) == 0 {
				text += fmt.Sprintf(`,"%s":%d`, fee, price())
			}
		}
		if r.IntN(3) == 0 {
			text += fmt.Sprintf(`,"device_second":%d`, r.Uint64N(mostDevicePrice))
		}
		if r.IntN(3) == 0 {
			text += fmt.Sprintf(`,"minimum":%d`, r.Uint64N(1000)*1_000_000)
		}
		var tiers []string
		for above := range r.IntN(4) {
			tiers = append(tiers, fmt.Sprintf(`{"above":%d,%s}`, above*100_000, prices()))
		}
		if tiers != nil {
			text += `,"tiers":[` + strings.Join(tiers, ",") + `]`
		}
		return text + "}"
	}
	var models, classes, windows []string
	for _, m := range modelNames {
		if r.IntN(2) == 0 {
			models = append(models, entry(`"model":"`+m+`",`))
		}
	}
	for range r.IntN(4) {
		classes = append(classes, fmt.Sprintf(`{"class":"%s","pays":%d%s}`, classNames[1+r.IntN(len(classNames)-1)], r.IntN(mostPays), onlyFor(r)))
	}
	for range r.IntN(4) {
		from := r.IntN(24)
		windows = append(windows, fmt.Sprintf(`{"name":"w","from":"%02d:17","to":"%02d:00","pays":%d,"days":[%s]%s}`,
			from, r.IntN(25), r.IntN(mostPays), []string{``, `"mon"`, `"sun","wed"`, `"sat","sat"`}[r.IntN(4)], onlyFor(r)))
	}
	return fmt.Sprintf(`{"currency":"EUR","scale":%d,"models":[%s],"default":%s,"classes":[%s],"windows":[%s]}`,
		r.IntN(mostScale+1), strings.Join(models, ","), entry(""), strings.Join(classes, ","), strings.Join(windows, ","))
}

var (
	modelNames = []string{"a", "a*", "ab", "ab*", "abc", "b*", "é*"}
	askedFor   = []string{"a", "ab", "abc", "abcd", "b", "c", "", "éa"}
	classNames = []string{"", "batch", "flex", "priority"}
)

func onlyFor(r *rand.Rand) string {
	return []string{``, `,"models":["a*"]`, `,"models":["abc","b*"]`}[r.IntN(3)]
}

func randomFrame(r *rand.Rand) plugin.Frame {
	n := func() uint32 { return uint32(r.Uint64N(1 << r.Uint64N(33))) }
	f := plugin.Frame{
		Outcome: plugin.OutcomeStop, Model: askedFor[r.IntN(len(askedFor))], ServiceTier: classNames[r.IntN(len(classNames))],
		ArrivalUnixNS: r.Uint64N(2_000_000_000_000_000_000), PromptTokens: n(), CompletionTokens: n(), ToolCalls: uint16(n()), DeviceNS: r.Uint64N(1 << r.Uint64N(63)),
	}
	if r.IntN(2) == 0 {
		f.CachedPromptTokens, f.CacheWriteTokens, f.ImageTokens, f.AudioTokens, f.ReasoningTokens = n(), n()/4, n()/8, n()/16, n()
	}
	if r.IntN(5) == 0 {
		f.Flags = plugin.FlagBatch
	}
	return f
}

// compareWithTwin prices random requests by a random book.
func compareWithTwin(t *testing.T, seed uint64, requests int) {
	r := newRand(seed)
	text := randomBook(r)
	c := configured(t, text)
	for range requests {
		frame := randomFrame(r)
		a, err := c.book.account(ended(frame))
		if got, want := c.book.decimal(amount{uint128: a.cost}), twinCost(t, text, &frame); err != nil || got != want {
			t.Fatalf("seed %d: got %s, %v; want %s, for %+v by %s", seed, got, err, want, frame, text)
		}
	}
}

// TestTwin: the price is that of a slow reading of the rules.
func TestTwin(t *testing.T) {
	for seed := range uint64(100) {
		compareWithTwin(t, seed, 40)
	}
}

func FuzzPrice(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { compareWithTwin(t, seed, 5) })
}
