package main

import (
	"strings"
	"testing"

	"github.com/wasmeter/wasmeter/host/plugin"
)

// configs are configurations and what is said of them: each fault with its place,
// what was found and what is allowed. An empty text: it is right.
func configs() map[string]string {
	const prices = `"input":1,"output":2`
	with := func(members string) string { return `{"currency":"EUR","default":{` + prices + `}` + members + `}` }
	model := func(members string) string {
		return `{"currency":"EUR","models":[{"model":"a",` + prices + `},{"model":"b*",` + prices + members + `}]}`
	}
	return map[string]string{
		highest:                               "",
		priceList:                             "",
		with(""):                              "",
		model(""):                             "",
		`{}`:                                  "currency: missing; write the code of a currency",
		`[]`:                                  "config: [] is not an object",
		`{"currency":"EUR"}`:                  "no prices; write what models cost, in models or default",
		`{"currency":"EUR","unknown":"free"}`: "",
		`{"currency":"euro","default":{"input":1,"output":2}}`:                    `currency: "euro" is not the code of a currency`,
		`{"currency":"EUR","default":{"input":1}}`:                                "default.output: missing; write a whole number in 0 … 1000000000000, in millionths of the currency for a million tokens",
		`{"currency":"EUR","default":{"input":2.5,"output":1}}`:                   "default.input: 2.5 is not a whole number in 0 … 1000000000000, in millionths of the currency for a million tokens: 2500000 is 2.50",
		`{"currency":"EUR","default":{"input":"2.50","output":1}}`:                `default.input: "2.50" is not a whole number`,
		`{"currency":"EUR","default":{"input":2500000.0,"output":1}}`:             "default.input: 2500000.0 is not a whole number",
		`{"currency":"EUR","default":{"input":25e5,"output":1}}`:                  "default.input: 25e5 is not a whole number",
		`{"currency":"EUR","default":{"input":-1,"output":1}}`:                    "default.input: -1 is not a whole number",
		`{"currency":"EUR","default":{"input":null,"output":1}}`:                  "default.input: null is not a whole number",
		`{"currency":"EUR","default":{"input":1000000000001,"output":1}}`:         "default.input: 1000000000001 is not a whole number in 0 … 1000000000000",
		`{"currency":"EUR","default":{"input":1,"input":2,"output":1}}`:           "duplicate",
		model(`,"device_second":1000000001`):                                      "models[1].device_second: 1000000001 is not a whole number in 0 … 1000000000, in millionths of the currency for a second of the device",
		model(`,"minimum":0.1`):                                                   "models[1].minimum: 0.1 is not a whole number",
		model(`,"tiers":[{"above":5,"input":1.5,"output":3}]`):                    "models[1].tiers[0].input: 1.5 is not a whole number",
		model(`,"tiers":[{"above":5,"output":3}]`):                                "models[1].tiers[0].input: missing",
		model(`,"tiers":[{"input":1,"output":3}]`):                                "models[1].tiers[0].above: missing",
		model(`,"tiers":[{"above":5,"input":1,"output":3}]`):                      "",
		model(`,"tiers":[{"above":5,"input":1,"output":3,"reasoning":4}]`):        "models[1]: tiers[0].reasoning: a model and its tiers have the same prices",
		model(`,"reasoning":3,"tiers":[{"above":5,"input":1,"output":3}]`):        "models[1]: tiers[0].reasoning: a model and its tiers have the same prices",
		model(`,"tiers":[{"above":5,` + prices + `},{"above":5,` + prices + `}]`): "models[1]: tiers[1].above: 5 is not more than",
		model(`,"tiers":[{"above":5,` + prices + `,"request":3}]`):                "models[1].tiers[0].request: unknown member; use above, input",
		model(`,"ouput":1`): "models[1].ouput: unknown member; use model, input",
		`{"currency":"EUR","models":[{"model":"a",` + prices + `},{"model":"a",` + prices + `}]}`:  `models[1].model: "a" stands there twice`,
		`{"currency":"EUR","models":[{"model":"a*",` + prices + `},{"model":"a",` + prices + `}]}`: "",
		`{"currency":"EUR","models":[{"model":"*",` + prices + `}]}`:                               `models[0].model: "*" is not the name of a model, or a beginning and *`,
		`{"currency":"EUR","models":[{"model":"a*b",` + prices + `}]}`:                             `models[0].model: "a*b" is not`,
		`{"currency":"EUR","models":[{"model":"",` + prices + `}]}`:                                `models[0].model: "" is not`,
		`{"currency":"EUR","models":[{` + prices + `}]}`:                                           "models[0].model: missing",
		`{"currency":"EUR","models":{"a":{` + prices + `}}}`:                                       "is not a list",
		with(`,"scale":13`):  "scale: 13 is not a whole number in 0 … 12; 6 decimal places",
		with(`,"scale":"2"`): `scale: "2" is not`,
		`{"currency":"EUR","scale":2,"default":{` + prices + `,"minimum":10000}}`: "",
		`{"currency":"EUR","scale":2,"default":{` + prices + `,"minimum":5000}}`:  `the minimum of "default", 5000, is rounded to 2 decimal places; use a multiple of 10000`,
		with(`,"unknown":"bill"`):                                                                 `unknown: "bill" is not one of refuse, free`,
		with(`,"classes":[{"class":"half price","pays":5000}]`):                                   `classes[0].class: "half price" is not 1 to 32 of a-z`,
		with(`,"classes":[{"class":"batch"}]`):                                                    "classes[0].pays: missing; write a whole number in 0 … 100000, in basis points",
		with(`,"classes":[{"class":"batch","pays":0.5}]`):                                         "classes[0].pays: 0.5 is not a whole number in 0 … 100000, in basis points of the price: 10000 is all of it",
		with(`,"classes":[{"class":"batch","pays":100001}]`):                                      "classes[0].pays: 100001 is not",
		with(`,"classes":[{"class":"batch","pays":1,"models":"a"}]`):                              `classes[0].models: "a" is not a list`,
		with(`,"classes":[{"class":"batch","pays":1,"models":["a*b"]}]`):                          `classes[0].models[0]: "a*b" is not`,
		with(`,"windows":[{"name":"n","from":"22:00","to":"6:00","pays":1}]`):                     `windows[0].to: "6:00" is not a time in UTC, 00:00 … 24:00`,
		with(`,"windows":[{"name":"n","from":"22:60","to":"06:00","pays":1}]`):                    `windows[0].from: "22:60" is not`,
		with(`,"windows":[{"name":"n","from":"00:00","to":"24:01","pays":1}]`):                    `windows[0].to: "24:01" is not`,
		with(`,"windows":[{"name":"n","from":"-1:00","to":"24:00","pays":1}]`):                    `windows[0].from: "-1:00" is not`,
		with(`,"windows":[{"name":"n","from":"08:00","to":"08:00","pays":1}]`):                    "windows[0]: from and to are the same time; the whole day is from 00:00 to 24:00",
		with(`,"windows":[{"name":"n","from":"08:00","to":"09:00","pays":1,"days":["monday"]}]`):  `windows[0].days[0]: "monday" is not one of mon, tue`,
		with(`,"policy":{"aborted":"half"}`):                                                      `policy.aborted: "half" is not one of made, delivered, free, credit`,
		with(`,"policy":{"stop":"free"}`):                                                         "policy.stop: unknown member; use aborted, failed, denied, client_abort",
		with(`,"answer":{"quote":"cost"}`):                                                        `answer.quote: "cost" is not a response header`,
		with(`,"answer":{"field":"a b"}`):                                                         `answer.field: "a b" is not the name of a field`,
		with(`,"corrects":{"plugin":"billing","reason":"r"}`):                                     "corrects.book: missing",
		with(`,"corrects":{"plugin":"billing","reason":"r","book":{}}`):                           "corrects.book: no prices",
		with(`,"corrects":{"plugin":"billing","reason":"r","book":{"currency":"USD"}}`):           "corrects.book.currency: unknown member",
		with(`,"corrects":{"plugin":"billing","reason":"r","book":{"default":{` + prices + `}}}`): "",
	}
}

func TestConfig(t *testing.T) {
	for config, want := range configs() {
		_, err := readConfig([]byte(config))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\ngot  %v\nwant %q", config, err, want)
		}
	}
}

// FuzzConfig: what is accepted prices any request, and what is not says why.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{priceList, `{}`, `{"currency":"EUR","unknown":"free"}`, `{"currency":"EUR","default":{"input":1,"output":2}}`,
		`{"currency":"EUR","models":[{"model":"a*","input":1000000000000,"output":0,"device_second":1000000000}],"classes":[{"class":"batch","pays":100000}]}`} {
		f.Add([]byte(text), "a", uint32(1<<32-1), uint64(1<<64-1))
	}
	f.Fuzz(func(t *testing.T, text []byte, model string, tokens uint32, ns uint64) {
		c, err := readConfig(text)
		if err != nil {
			if message := err.Error(); message == "" || len(message) > 64<<10 {
				t.Errorf("a message of %d bytes", len(message))
			}
			return
		}
		frame := plugin.Frame{Model: model, Outcome: plugin.OutcomeLength, PromptTokens: tokens, CompletionTokens: tokens, ToolCalls: uint16(tokens),
			DeviceNS: ns, ArrivalUnixNS: ns, Flags: plugin.FlagBatch}
		a, err := c.book.account(ended(frame))
		if err != nil && err != errNoPrice {
			t.Errorf("%v for %+v by %s", err, frame, text)
		}
		if err == nil && a.cost.saturated() {
			t.Errorf("a cost beyond all for %+v by %s", frame, text)
		}
	})
}
