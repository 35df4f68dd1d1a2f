package host

import (
	"encoding/binary"
	"math/big"
	"strings"
	"testing"
)

// TestTargets: the headers reach the plugins' frame on all three endpoints.
func TestTargets(t *testing.T) {
	kept := &book{}
	f := serve(t, func(u *setup) { u.ledger = kept })
	for _, endpoint := range []struct{ path, body string }{
		{"/v1/chat/completions", chatBody(`"max_tokens":1`)},
		{"/v1/completions", completionBody(`"prompt":"a","max_tokens":1`)},
		{"/v1/responses", `{"model":"sim","input":"fox","max_output_tokens":1}`},
	} {
		for _, c := range []struct {
			ttft, tpot         string
			wantTTFT, wantTPOT uint32
			wrong              string // the header that the refusal names
		}{
			{"", "", 0, 0, ""},
			{"250", "", 250, 0, ""},
			{"0", "40.0", 0, 40, ""},
			{"3600000", "0.25", 3_600_000, 1, ""},
			{"3600001", "", 0, 0, "x-slo-ttft-ms"},
			{"3600000.1", "", 0, 0, "x-slo-ttft-ms"},
			{"100", "-1", 0, 0, "x-slo-tpot-ms"},
			{"100", "fast", 0, 0, "x-slo-tpot-ms"},
			{"99999999999999999999", "", 0, 0, "x-slo-ttft-ms"},
		} {
			before := len(kept.all())
			var header []string
			if c.ttft != "" {
				header = append(header, "x-slo-ttft-ms", c.ttft)
			}
			if c.tpot != "" {
				header = append(header, "X-SLO-TPOT-ms", c.tpot) // names of headers have no case
			}
			r := f.do("POST", endpoint.path, endpoint.body, header...)
			if c.wrong != "" {
				param := at(decode(t, r.body), "error", "param")
				if r.status != 400 || param != c.wrong || !strings.Contains(r.body, "0 … 3600000") {
					t.Errorf("%s with %q: %d %s, want 400 that names %s and what is allowed", endpoint.path, header, r.status, r.body, c.wrong)
				}
				if n := len(kept.all()); n != before {
					t.Errorf("%s with %q: refused and recorded", endpoint.path, header)
				}
				continue
			}
			records := kept.all()
			if r.status != 200 || len(records) != before+1 {
				t.Fatalf("%s with %q: %d %s, %d records", endpoint.path, header, r.status, r.body, len(records)-before)
			}
			// ABI.md: slo_ttft_ms at 88, slo_tpot_ms at 92.
			frame := records[before].Frame
			ttft, tpot := binary.LittleEndian.Uint32(frame[88:]), binary.LittleEndian.Uint32(frame[92:])
			if ttft != c.wantTTFT || tpot != c.wantTPOT {
				t.Errorf("%s with %q: the frame has %d and %d, want %d and %d", endpoint.path, header, ttft, tpot, c.wantTTFT, c.wantTPOT)
			}
		}
	}
}

// FuzzMillis holds the reader against exact fractions.
func FuzzMillis(f *testing.F) {
	for _, seed := range []string{"0", "250", "0.25", "007.50", "3600000", "3600000.000001", "1e3", "+1", "1.", ".5", "0x10", "NaN", "1/2", "１"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseMillis(text)
		want, sound := new(big.Rat).SetString(text)
		sound = sound && strings.Trim(text, "0123456789.") == "" && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".") && len(text) <= 20
		if !sound {
			if ok && len(text) <= 20 {
				t.Fatalf("%q is read as %d", text, got)
			}
			return
		}
		up := new(big.Int).Add(want.Num(), new(big.Int).Sub(want.Denom(), big.NewInt(1)))
		up.Quo(up, want.Denom())
		if inside := up.Cmp(big.NewInt(maxTargetMS)) <= 0; inside != ok || ok && up.Cmp(new(big.Int).SetUint64(uint64(got))) != 0 {
			t.Errorf("%q: got %d, %v; want %v, allowed %v", text, got, ok, up, inside)
		}
	})
}
