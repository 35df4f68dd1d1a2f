package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is a place in a Config that text can be written to. It is a
// pflag.Value, so that file, environment and flags read a key alike. String
// gives text that Set takes.
type value interface {
	Set(text string) error
	String() string
	// Type names what is expected, for --help.
	Type() string
}

type textValue struct{ to *string }

func (v textValue) Set(text string) error {
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("%q holds a control character", text)
	}
	*v.to = text
	return nil
}
func (v textValue) String() string { return *v.to }
func (v textValue) Type() string   { return "text" }

type intValue struct{ to *int }

func (v intValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	*v.to = n
	return nil
}
func (v intValue) String() string { return strconv.Itoa(*v.to) }
func (v intValue) Type() string   { return "number" }

type floatValue struct{ to *float64 }

func (v floatValue) Set(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%q is not a number", text)
	}
	*v.to = f
	return nil
}
func (v floatValue) String() string { return strconv.FormatFloat(*v.to, 'g', -1, 64) }
func (v floatValue) Type() string   { return "number" }

type unitsValue struct{ to *int64 }

func (v unitsValue) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	*v.to = n
	return nil
}
func (v unitsValue) String() string { return strconv.FormatInt(*v.to, 10) }
func (v unitsValue) Type() string   { return "number" }

type boolValue struct{ to *bool }

func (v boolValue) Set(text string) error {
	if text != "true" && text != "false" {
		return fmt.Errorf("%q is not true or false", text)
	}
	*v.to = text == "true"
	return nil
}
func (v boolValue) String() string { return strconv.FormatBool(*v.to) }
func (v boolValue) Type() string   { return "bool" }

// notValue is the flag that switches a fact off: --disable-log-stats.
type notValue struct{ boolValue }

func (v notValue) Set(text string) error {
	if err := v.boolValue.Set(text); err != nil {
		return err
	}
	*v.to = !*v.to
	return nil
}
func (v notValue) String() string { return strconv.FormatBool(v.to != nil && !*v.to) }

type durationValue struct{ to *time.Duration }

func (v durationValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration; write 30s, 500ms or 1m30s", text)
	}
	*v.to = d
	return nil
}
func (v durationValue) String() string { return v.to.String() }
func (v durationValue) Type() string   { return "duration" }

// sizeValue is a number of bytes, plain or with a binary unit.
type sizeValue struct{ to *int64 }

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func (v sizeValue) Set(text string) error {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil {
			break
		}
		if n > math.MaxInt64/unit.bytes || n < 0 {
			return fmt.Errorf("%q is not in 0 … 8388607TiB", text)
		}
		*v.to = n * unit.bytes
		return nil
	}
	return fmt.Errorf("%q is not a size; write bytes as 1048576, 512MiB or 1GiB", text)
}
func (v sizeValue) String() string {
	for _, unit := range sizeUnits {
		if *v.to > 0 && *v.to%unit.bytes == 0 && unit.bytes > 1 {
			return strconv.FormatInt(*v.to/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(*v.to, 10)
}
func (v sizeValue) Type() string { return "size" }

type choiceValue struct {
	to    *string
	words []string
}

func choice(to *string, words ...string) choiceValue { return choiceValue{to, words} }

func (v choiceValue) Set(text string) error {
	if !slices.Contains(v.words, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(v.words, ", "))
	}
	*v.to = text
	return nil
}
func (v choiceValue) String() string { return *v.to }
func (v choiceValue) Type() string   { return strings.Join(v.words, "|") }

// CheckDevice says what is wrong with the name of a device.
func CheckDevice(name string) error { return deviceValue{new(string)}.Set(name) }

// deviceValue is auto, cpu, cuda or cuda:n.
type deviceValue struct{ to *string }

func (v deviceValue) Set(text string) error {
	index, isIndexed := strings.CutPrefix(text, "cuda:")
	n, err := strconv.ParseUint(index, 10, 8)
	indexed := isIndexed && err == nil && strconv.FormatUint(n, 10) == index
	if !indexed && text != "auto" && text != "cpu" && text != "cuda" {
		return fmt.Errorf("%q is not one of auto, cpu, cuda, cuda:0 … cuda:255", text)
	}
	*v.to = text
	return nil
}
func (v deviceValue) String() string { return *v.to }
func (v deviceValue) Type() string   { return "auto|cpu|cuda[:n]" }

// listValue is a list of words; as text they stand between commas.
type listValue struct{ to *[]string }

func (v listValue) Set(text string) error {
	if text == "" {
		*v.to = nil
		return nil
	}
	words := strings.Split(text, ",")
	for i, w := range words {
		var word string
		if err := (textValue{&word}).Set(strings.TrimSpace(w)); err != nil {
			return err
		}
		if word == "" {
			return fmt.Errorf("%q has an empty name", text)
		}
		words[i] = word
	}
	*v.to = words
	return nil
}
func (v listValue) String() string { return strings.Join(*v.to, ",") }
func (v listValue) Type() string   { return "names" }
