package timing

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

func written(s Stamps) string {
	var w wasmeter.JSON
	s.Write(w.List("metrics"))
	return string(w.AppendTo(nil))
}

// Numbers at the edges, worked out by hand.
func TestEdges(t *testing.T) {
	const last = 1<<64 - 1
	for _, c := range []struct {
		name string
		Stamps
		want string
	}{
		{"nothing happened", Stamps{}, `null,null,null,null,null`},
		{"one token", Stamps{1, 2, 3, 3, 1}, `0.000001,0.0,0.000001,null,1000000000.0`},
		{"no time at all", Stamps{5, 5, 5, 5, 3}, `0.0,0.0,0.0,0.0,null`},
		{"half a nanosecond rounds up", Stamps{1, 1, 1, 4, 3}, `0.0,0.000003,0.0,0.000002,1000000000.0`},
		{"a third of a nanosecond rounds down", Stamps{1, 1, 1, 2, 4}, `0.0,0.000001,0.0,0.0,4000000000.0`},
		{"longest and most", Stamps{1, 1, 1, last, 1<<32 - 1}, `0.0,18446744073709.551614,0.0,4294.967298,0.232831`},
		{"most in a nanosecond", Stamps{1, 1, 1, 2, 1<<32 - 1}, `0.0,0.000001,0.0,0.0,4294967295000000000.0`},
		{"queued after scheduled", Stamps{9, 2, 3, 10, 2}, `0.000001,0.000007,null,0.000007,250000000.0`},
		{"first before scheduled", Stamps{1, 5, 4, 8, 2}, `null,0.000004,0.000004,0.000004,666666666.666667`},
	} {
		if got := written(c.Stamps); got != `"metrics":[`+c.want+`]` {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// decimal is n / d rounded half up to 6 places without trailing zeros, by
// math/big.
func decimal(n, d *big.Int) string {
	million := big.NewInt(1_000_000)
	double := new(big.Int).Mul(n, new(big.Int).Mul(big.NewInt(2), million))
	double.Add(double, d)
	double.Quo(double, new(big.Int).Mul(big.NewInt(2), d))
	whole, micro := new(big.Int).QuoRem(double, million, new(big.Int))
	places := strings.TrimRight(("000000" + micro.String())[len(micro.String()):], "0")
	if places == "" {
		places = "0"
	}
	return whole.String() + "." + places
}

// twin is the table of ABI.md, read aloud.
func twin(s Stamps) string {
	n := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	minus := func(to, from uint64) *big.Int { return new(big.Int).Sub(n(to), n(from)) }
	over := func(interval, by *big.Int, happened ...uint64) string {
		for _, stamp := range happened {
			if stamp == 0 {
				return "null"
			}
		}
		if interval.Sign() < 0 || by.Sign() <= 0 {
			return "null"
		}
		return decimal(interval, by)
	}
	ms, second := big.NewInt(1_000_000), big.NewInt(1_000_000_000)
	itl, speed := "null", "null"
	if s.NumTokens > 1 {
		itl = over(minus(s.LastToken, s.FirstToken), new(big.Int).Mul(n(uint64(s.NumTokens)-1), ms), s.FirstToken, s.LastToken)
	}
	if inference := minus(s.LastToken, s.Scheduled); inference.Sign() > 0 {
		speed = over(new(big.Int).Mul(n(uint64(s.NumTokens)), second), inference, s.Scheduled, s.LastToken)
	}
	return `"metrics":[` + strings.Join([]string{
		over(minus(s.FirstToken, s.Scheduled), ms, s.Scheduled, s.FirstToken),
		over(minus(s.LastToken, s.FirstToken), ms, s.FirstToken, s.LastToken),
		over(minus(s.Scheduled, s.Queued), ms, s.Queued, s.Scheduled),
		itl, speed,
	}, ",") + "]"
}

// Any stamps give what exact arithmetic gives.
func TestTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	stamp := func() uint64 { // of any size, and sometimes one that never happened
		if r.IntN(8) == 0 {
			return 0
		}
		return r.Uint64() >> r.IntN(64)
	}
	for range 20_000 {
		s := Stamps{stamp(), stamp(), stamp(), stamp(), r.Uint32() >> r.IntN(32)}
		if got, want := written(s), twin(s); got != want {
			t.Fatalf("%+v: got %s, want %s", s, got, want)
		}
	}
}

// The fields stand in the documented order, under the documented names.
func TestNames(t *testing.T) {
	var w wasmeter.JSON
	Stamps{}.Write(w.Object("metrics"))
	const want = `"metrics":{"time_to_first_token_ms":null,"generation_time_ms":null,"queue_time_ms":null,"mean_itl_ms":null,"tokens_per_second":null}`
	if got := string(w.AppendTo(nil)); got != want || !json.Valid([]byte("{"+got+"}")) {
		t.Errorf("got %s, want %s", got, want)
	}
}
