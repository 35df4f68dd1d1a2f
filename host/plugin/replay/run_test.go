package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// billing puts prices on tokens.
const billing = "../../../examples/plugins/billing-zig/billing.wasm"

func pricer(t *testing.T, module string, members Members, adjust ...func(*plugin.Spec)) *Pricer {
	t.Helper()
	return cachedPricer(t, "", module, members, adjust...)
}

// cachedPricer compiles a module once, if a folder is given.
func cachedPricer(t *testing.T, cache, module string, members Members, adjust ...func(*plugin.Spec)) *Pricer {
	t.Helper()
	wasm, err := os.ReadFile(module)
	if err != nil {
		t.Fatal(err)
	}
	spec := plugin.Spec{Name: "test", Wasm: wasm, Grants: plugin.Everything()}
	for _, change := range adjust {
		change(&spec)
	}
	p, err := Load(t.Context(), plugin.Options{CacheDir: cache}, spec, members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func config(text string) func(*plugin.Spec) {
	return func(s *plugin.Spec) { s.Config = []byte(text) }
}

func run(t *testing.T, file string, options Options, after, before Side) *Report {
	t.Helper()
	r, err := NewReader(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), r, options, after, before)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// request is a finished chat request.
func request(attempt, tenant, model string, prompt, completion uint32) *plugin.Frame {
	return &plugin.Frame{
		AttemptID: attempt, RequestID: "r" + attempt, Tenant: tenant, Model: model, Endpoint: plugin.EndpointChat, Outcome: plugin.OutcomeStop,
		PromptTokens: prompt, CompletionTokens: completion, ArrivalUnixNS: 1_764_000_000_000_000_000,
	}
}

func lines(list ...*plugin.Frame) string {
	var b strings.Builder
	for _, f := range list {
		b.WriteString(line(f))
	}
	return b.String()
}

// TestInvoice: worked out by hand, at 2.5 and 10 micro-dollars a token and
// then at 2.5 and 11, rounded half up once a request.
func TestInvoice(t *testing.T) {
	aborted := request("d", "beta", "big", 5, 1) // 12.5 + 10 = 22.5
	aborted.Outcome = plugin.OutcomeClientAbort
	file := lines(
		request("a", "acme", "small", 23, 8), // 57.5 + 80 = 137.5
		request("b", "acme", "big", 1, 0),    // 2.5
		request("c", "acme", "small", 0, 100),
		aborted,
	) + `{"frame":"`
	before := pricer(t, billing, DefaultMembers(), config(`{"input":2500000,"output":10000000}`))
	after := pricer(t, billing, DefaultMembers(), config(`{"input":2500000,"output":11000000}`))
	r := run(t, file, Options{Top: 2}, after, before)

	if r.Requests != 4 || r.TornBytes != len(`{"frame":"`) || r.After.Requests != 4 || !r.First.Equal(time.Unix(1_764_000_000, 0)) {
		t.Errorf("got %+v", r)
	}
	rows := ""
	for _, row := range r.Before.Rows {
		rows += fmt.Sprintf("%s/%s/%s %d %d %s\n", row.Tenant, row.Model, row.Currency, row.Requests, row.Records, row.Amount)
	}
	if want := "acme/big/USD 1 1 0.000003\nacme/small/USD 2 2 0.001138\nbeta/big/USD 1 1 0.000023\n"; rows != want {
		t.Errorf("before: got\n%swant\n%s", rows, want)
	}
	d := r.Difference
	compared := ""
	for _, c := range append(d.Tenants, d.Totals...) {
		compared += fmt.Sprintf("%s %s %s %s %s %s\n", c.Tenant, c.Currency, c.Before, c.After, c.Difference, c.Percent)
	}
	// After: 57.5 + 88 = 145.5, 2.5, 1100, 12.5 + 11 = 23.5.
	if want := "acme USD 0.001141 0.001249 0.000108 +9.47 %\nbeta USD 0.000023 0.000024 0.000001 +4.35 %\n USD 0.001164 0.001273 0.000109 +9.36 %\n"; compared != want {
		t.Errorf("difference: got\n%swant\n%s", compared, want)
	}
	if d.Changed != 3 || len(d.Largest) != 2 || d.Largest[0].AttemptID != "c" || d.Largest[0].Difference.String() != "0.0001" || d.Largest[1].RequestID != "ra" {
		t.Errorf("got %d changed, largest %+v", d.Changed, d.Largest)
	}
	// The one whose client left was not shaped.
	if shape, finish := after.fuel[plugin.HookShape].count, after.fuel[plugin.HookFinish].count; shape != 3 || finish != 4 {
		t.Errorf("%d shapes and %d finishes, want 3 and 4", shape, finish)
	}
	if q := r.After.Fuel["finish"]; q.P50 <= 0 || q.Max < q.P99 || q.P99 < q.P50 {
		t.Errorf("fuel: got %+v", q)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"amount":"0.000024"`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}

// TestWitness runs a plugin that says what it sees.
func TestWitness(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a Go plugin, some seconds; go test ./host/plugin/replay runs it")
	}
	witness := filepath.Join(t.TempDir(), "witness.wasm")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", witness, "./testdata/witness")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	t.Run("what it sees", func(t *testing.T) { testWhatItSees(t, witness) })
	t.Run("failures", func(t *testing.T) { testFailures(t, witness) })
}

// testWhatItSees: the clock at each request's end, what it has written for
// earlier requests as long as that lives, and no carry but its own.
func testWhatItSees(t *testing.T, witness string) {
	one, two, three := request("a", "acme", "m", 1, 1), request("b", "acme", "m", 1, 1), request("c", "acme", "m", 1, 1)
	one.FinishedNS, two.FinishedNS, three.LastTokenNS = 77, 88, 99
	two.ArrivalUnixNS += 59_000_000_000
	three.ArrivalUnixNS += 61_000_000_000 // a minute after one, at which the count began, it has ended
	two.Outcome = plugin.OutcomeClientAbort
	for _, f := range []*plugin.Frame{one, two, three} {
		f.Carry, f.Document = "not its own", []byte("{}")
	}
	for member, want := range map[string]string{
		"now":      "shaped ra 1764000000000000077,  1764000059000000088, shaped rc 1764000061000000099",
		"count":    "shaped ra 1,  2, shaped rc 1",
		"document": "shaped ra 0,  0, shaped rc 0",
	} {
		// The witness gives its carry as the currency, so that each request has a total of its own.
		p := cachedPricer(t, filepath.Join(filepath.Dir(witness), "cache"), witness, Members{Amounts: []string{member}, Currency: "currency"})
		r := run(t, lines(one, two, three), Options{}, p, nil)
		totals := make(map[string]string)
		for _, total := range r.After.Totals {
			totals[total.Currency] = total.Amount.String()
		}
		got := fmt.Sprintf("shaped ra %s,  %s, shaped rc %s", totals["shaped ra"], totals[""], totals["shaped rc"])
		if got != want || len(r.After.Failures) != 0 || r.After.WithoutChoices != 3 || r.After.WithoutEvents != 3 {
			t.Errorf("%s: got %s, want %s; %+v", member, got, want, r.After)
		}
	}
	p := cachedPricer(t, filepath.Join(filepath.Dir(witness), "cache"), witness, Members{Amounts: []string{"replay"}})
	r := run(t, lines(one), Options{}, p, nil)
	if f := r.After.Failures; len(f) != 1 || !strings.Contains(f[0].Example, "replay: true is neither") {
		t.Errorf("got failures %+v, want the flag replay as a bad amount", f)
	}
}

// testFailures: each kind is counted, with one that it happened to, and the
// others go on.
func testFailures(t *testing.T, witness string) {
	var file string
	for i, tier := range []string{"", "bad shape", "bad finish", "trap", "nothing"} {
		f := request(fmt.Sprint(i), "acme", "m", 1, 1)
		f.ServiceTier = tier
		file += strings.Repeat(lines(f), 20) // a breaker would have opened
	}
	p := cachedPricer(t, filepath.Join(filepath.Dir(witness), "cache"), witness, Members{Amounts: []string{"document"}})
	r := run(t, file, Options{}, p, nil)
	var kinds []string
	for _, f := range r.After.Failures {
		kinds = append(kinds, fmt.Sprint(f.Hook, " ", f.Kind, " ", f.Count, " ", f.Attempt))
		if f.Example == "" {
			t.Errorf("%s: no example", f.Kind)
		}
	}
	if got, want := strings.Join(kinds, ", "), "finish bad_result 20 2, finish trap 20 3, shape bad_result 20 1"; got != want {
		t.Errorf("got failures %q, want %q", got, want)
	}
	if r.Requests != 100 || r.After.WithoutRecord != 20 || len(r.After.Rows) != 1 || r.After.Rows[0].Requests != 40 {
		t.Errorf("got %+v, want a record for 40 requests and none, without a failure, for 20", r.After)
	}
}

func TestMatchAndFilter(t *testing.T) {
	p := pricer(t, billing, DefaultMembers(), config(`{"input":0,"output":1000000}`), func(s *plugin.Spec) { s.Match.Models = []string{"big*"} })
	file := lines(request("a", "t", "big-1", 0, 1), request("b", "t", "small", 0, 1), request("c", "u", "big-2", 0, 1))
	r := run(t, file, Options{Filter: Filter{Tenants: []string{"t"}}}, p, nil)
	if r.Requests != 2 || r.Skipped != 1 || r.After.Requests != 1 || r.After.Outside != 1 || r.After.Totals[0].Amount.String() != "0.000001" {
		t.Errorf("got %+v", r)
	}
}

func TestRunRefuses(t *testing.T) {
	p := pricer(t, billing, DefaultMembers(), config(`{"input":0,"output":1000000}`))
	long := request("a", strings.Repeat("n", maxName+1), "m", 1, 1)
	for _, c := range []struct{ name, file, want string }{
		{"a bad line", lines(request("a", "t", "m", 1, 1)) + "x\n", "line 2: not a JSON object"},
		{"a long name", lines(long), "a name of more than"},
	} {
		r, err := NewReader(strings.NewReader(c.file))
		if err != nil {
			t.Fatal(err)
		}
		if report, err := Run(t.Context(), r, Options{}, p, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v; want %q", c.name, report, err, c.want)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	r, err := NewReader(strings.NewReader(lines(long)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(stopped, r, Options{}, p, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
	wasm, err := os.ReadFile(billing)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), plugin.Options{}, plugin.Spec{Name: "test", Wasm: wasm, Grants: plugin.Everything()}, DefaultMembers()); err == nil || !strings.Contains(err.Error(), "input: missing") {
		t.Errorf("without prices: got %v, want the price that is missing", err)
	}
}

// TestRowsAreBounded: a file that names a tenant a request ends.
func TestRowsAreBounded(t *testing.T) {
	v := invoice{make(map[rowKey]*Row)}
	it := &item{currency: "USD", records: 1}
	for i := range maxRows {
		if err := v.add(fmt.Sprint(i), "m", it); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.add("0", "m", it); err != nil {
		t.Errorf("a row that is there: %v", err)
	}
	if err := v.add("more", "m", it); err == nil {
		t.Error("one more: no error")
	}
}

// TestLargestAreExact: of many changes the largest stay, whatever their order.
func TestLargestAreExact(t *testing.T) {
	c := &changes{top: 3}
	amount := func(n int) []item {
		a, err := ParseAmount(fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		return []item{{currency: "USD", amount: a}}
	}
	for _, n := range []int{5, -9, 0, 3, 7, -7, 1, 8} {
		c.add(&plugin.Frame{AttemptID: fmt.Sprint(n)}, amount(10), amount(10+n))
	}
	var got []string
	for _, change := range c.report(nil, nil).Largest {
		got = append(got, change.AttemptID)
	}
	if text := strings.Join(got, " "); text != "-9 8 7" || c.changed != 7 {
		t.Errorf("got %s of %d, want -9 8 7 of 7", text, c.changed)
	}
	// Another currency is another amount, on both sides.
	c = &changes{top: 5}
	c.add(&plugin.Frame{}, []item{{currency: "EUR", amount: amount(2)[0].amount}}, amount(2))
	if r := c.report(nil, nil); r.Changed != 1 || len(r.Largest) != 2 {
		t.Errorf("got %+v, want one request with two amounts changed", r)
	}
}

// repeated gives a line again and again.
type repeated struct {
	line string
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	r.left--
	return copy(p, r.line), nil
}

// TestMemoryIsBounded: what is kept after many requests is what is kept after
// some.
func TestMemoryIsBounded(t *testing.T) {
	text := line(request("a", "t", "m", 1, 1))
	kept := func(n int64) (buffers int) {
		r, err := NewReader(&repeated{text, n})
		if err != nil {
			t.Fatal(err)
		}
		p := pricer(t, billing, DefaultMembers(), config(`{"input":1000000,"output":0}`))
		report, err := Run(t.Context(), r, Options{Top: 10}, p, nil)
		if err != nil || int64(report.Requests) != n || report.After.Totals[0].Amount.String() != fmt.Sprint(float64(n)/1e6) {
			t.Fatalf("%d requests: got %+v, %v", n, report, err)
		}
		return cap(r.text) + cap(r.frame) + cap(r.emitted) + cap(p.tally.bill) + len(p.tally.invoice.rows) + len(p.tally.failures)
	}
	if few, many := kept(100), kept(20_000); few != many {
		t.Errorf("after 100 requests %d are kept, after 20,000 %d", few, many)
	}
}

// billedLine is a request as the ledger has it, with what was billed.
func billedLine(f *plugin.Frame, emitted string) string {
	return strings.Replace(line(f), `[{"frame":"no"}]`, emitted, 1)
}

// TestBilled compares with what the ledger says, worked out by hand: 10
// micro-dollars a token.
func TestBilled(t *testing.T) {
	p := pricer(t, billing, DefaultMembers(), config(`{"input":0,"output":10000000}`))
	charge := func(micro int) string {
		return fmt.Sprintf(`{"plugin":"other","index":0,"kind":1,"data":{"cost":"7","currency":"EUR"}},`+
			`{"plugin":"billing","index":0,"kind":1,"data":{"cost_micro_usd":%d,"currency":"USD"}}`, micro)
	}
	file := billedLine(request("a", "acme", "m", 1, 1), "["+charge(10)+"]") +
		billedLine(request("b", "acme", "m", 1, 2), "["+charge(15)+","+charge(1)+"]") + // 20
		billedLine(request("c", "acme", "m", 1, 0), "[]") // nothing, and 0
	r := run(t, file, Options{Top: 5}, p, NewBilled("billing", DefaultMembers()))
	d := r.Difference
	if d.Changed != 1 || len(d.Largest) != 1 || d.Largest[0].AttemptID != "b" || d.Largest[0].Before.String() != "0.000016" || d.Largest[0].Difference.String() != "0.000004" {
		t.Errorf("got %+v", d)
	}
	if len(r.Before.Rows) != 1 || r.Before.Rows[0].Requests != 2 || r.Before.Rows[0].Records != 3 || r.Before.Rows[0].Amount.String() != "0.000026" || r.Before.WithoutRecord != 1 {
		t.Errorf("billed: got %+v", r.Before)
	}

	for name, c := range map[string]struct{ emitted, want string }{
		"a copy":         {`null`, "line 1: no records of what was billed"},
		"other things":   {`[3]`, "line 1: emitted: a list of number"},
		"without data":   {`[{"plugin":"billing"}]`, "has no data"},
		"data of a kind": {`[{"plugin":"billing","data":5}]`, "has no data"},
	} {
		reader, err := NewReader(strings.NewReader(billedLine(request("a", "t", "m", 1, 1), c.emitted)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), reader, Options{}, p, NewBilled("billing", DefaultMembers())); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	out, _ := copyOf(t, file, Filter{}, Keep{})
	reader, err := NewReader(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), reader, Options{}, p, NewBilled("billing", DefaultMembers())); !errors.Is(err, errNotLedger) {
		t.Errorf("a copy has nothing of what was billed: got %v", err)
	}
}
