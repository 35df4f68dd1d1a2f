package outcome

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// The words are those of the ABI's table of codes.
func TestNamesAreTheABIs(t *testing.T) {
	abi, err := os.ReadFile("../../../host/plugin/ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| outcome \| (.*) \|$`).FindSubmatch(abi)
	if row == nil {
		t.Fatal("ABI.md has no row of outcomes")
	}
	all := strings.Split(string(row[1]), ", ")
	for _, entry := range all {
		code, name, _ := strings.Cut(entry, " ")
		n, err := strconv.Atoi(code)
		if err != nil {
			t.Fatal(err)
		}
		if got := Name(wasmeter.Outcome(n)); got != name {
			t.Errorf("outcome %d is %q, ABI.md says %q", n, got, name)
		}
	}
	if got := Name(wasmeter.Outcome(len(all))); got != "unknown" {
		t.Errorf("outcome %d is %q, ABI.md has none", len(all), got)
	}
}

func TestGroups(t *testing.T) {
	for o, want := range map[wasmeter.Outcome]Group{
		wasmeter.Running: Complete, wasmeter.Stop: Complete, wasmeter.Length: Complete, wasmeter.ToolCalls: Complete,
		wasmeter.ClientAbort: Aborted, wasmeter.SlowReader: Aborted,
		wasmeter.ServerError: Failed, wasmeter.Shutdown: Failed, wasmeter.PluginError: Failed, wasmeter.Deadline: Failed,
		wasmeter.CrashRecovered: Failed, 200: Failed,
		wasmeter.Denied: Denied, wasmeter.Rejected: Denied,
	} {
		if got := GroupOf(o); got != want {
			t.Errorf("%s: group %d, want %d", Name(o), got, want)
		}
	}
}
