package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

type color uint8

// shelf is a configuration with one of everything.
type shelf struct {
	open  bool
	width uint64
	label string
	color color
	names []string
	books []book
}

type book struct {
	title string
	pages uint64
}

func (s *shelf) members() Members {
	return Members{
		{Name: "open", Value: Bool(&s.open)},
		{Name: "width", Value: Uint(&s.width, 1, 300), Required: true},
		{Name: "label", Value: Object(Members{
			{Name: "text", Value: Text(&s.label, "a text of 1 to 5 bytes", func(t string) bool { return t != "" && len(t) <= 5 })},
			{Name: "color", Value: Word(&s.color, "red", "green")},
		}, nil)},
		{Name: "names", Value: List(&s.names, 3, func(to *string) Value { return Text(to, "a text", func(string) bool { return true }) })},
		{Name: "books", Value: List(&s.books, 2, func(b *book) Value {
			return Object(Members{
				{Name: "title", Value: Text(&b.title, "a text", func(string) bool { return true }), Required: true},
				{Name: "pages", Value: Uint(&b.pages, 0, 1<<64-1)},
			}, func() error {
				if b.pages > 900 {
					return errors.New("too thick")
				}
				return nil
			})
		})},
	}
}

func (s *shelf) check() error {
	if s.open && s.width > 100 {
		return errors.New("an open shelf is at most 100 wide")
	}
	return nil
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		config, want string // what is read, or the faults
	}{
		{`{"width":7}`, `{false 7  0 [] []}`},
		{`{"open":true,"width":100,"label":{"text":"\u00e4\"b","color":"green"},"names":["a","","c"],"books":[{"title":"x"},{"pages":18446744073709551615,"title":""}]}`,
			`books[1]: too thick`},
		{`{"open":true,"width":100,"label":{"text":"\u00e4\"b","color":"green"},"names":["a","","c"],"books":[{"title":"x"},{"pages":900,"title":"y"}]}`,
			`{true 100 ä"b 1 [a  c] [{x 0} {y 900}]}`},
		{`{"open":true,"width":101}`, `config: an open shelf is at most 100 wide`},
		{`{}`, `width: missing; write a whole number in 1 … 300`},
		{`[]`, `config: [] is not an object`},
		{`{"width":0,"widht":2,"open":1}`, "width: 0 is not a whole number in 1 … 300\nwidht: unknown member; use open, width, label, names, books\nopen: 1 is not true or false"},
		{`{"width":1.0}`, `width: 1.0 is not a whole number`},
		{`{"width":1e2}`, `width: 1e2 is not a whole number`},
		{`{"width":-1}`, `width: -1 is not a whole number`},
		{`{"width":18446744073709551616}`, `width: 18446744073709551616 is not a whole number`},
		{`{"width":"7"}`, `width: "7" is not a whole number`},
		{`{"width":null}`, `width: null is not a whole number`},
		{`{"width":{"a":[1]}}`, `width: {"a":[1]} is not a whole number`},
		{`{"width":1,"label":[]}`, `label: [] is not an object`},
		{`{"width":1,"label":{"color":"blue"}}`, `label.color: "blue" is not one of red, green`},
		{`{"width":1,"label":{"color":1}}`, `label.color: 1 is not one of red, green`},
		{`{"width":1,"label":{"text":"123456"}}`, `label.text: "123456" is not a text of 1 to 5 bytes`},
		{`{"width":1,"names":["a",2,"c","d"]}`, "names[1]: 2 is not a text\nnames: 4 items; write a list of at most 3"},
		{`{"width":1,"names":{"0":"a"}}`, `names: {"0":"a"} is not a list of at most 3`},
		{`{"width":1,"books":[{"title":"a"},{}]}`, `books[1].title: missing; write a text`},
		{`{"width":1,"books":[1]}`, `books[0]: 1 is not an object`},
		{`{"width":1,"width":2}`, `duplicate`},
		{`{"width":1`, `unexpected EOF`},
		{`{"width":` + strings.Repeat("9", 200) + `}`, "width: " + strings.Repeat("9", 60) + "… is not"},
	} {
		var s shelf
		err := Read([]byte(c.config), s.members(), s.check)
		got := fmt.Sprint(s)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.config, got, c.want)
		}
	}
}

// What is told stays short, however much is wrong.
func TestFaultsAreBounded(t *testing.T) {
	var s shelf
	config := `{"width":1`
	for i := range 1000 {
		config += fmt.Sprintf(`,"x%d":%d`, i, i)
	}
	err := Read([]byte(config+"}"), s.members(), nil)
	if err == nil || strings.Count(err.Error(), "\n") != mostFaults-1 {
		t.Errorf("got %v, want %d faults", err, mostFaults)
	}
}

func TestPaths(t *testing.T) {
	var s shelf
	want := []string{"open", "width!", "label", "label.text", "label.color", "names", "books", "books[].title!", "books[].pages"}
	if got := s.members().Paths(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzRead: nothing panics, and what is accepted is the JSON that it seems to be.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"open":true,"width":100,"label":{"text":"a","color":"green"},"names":["a"],"books":[{"title":"x","pages":3}]}`))
	f.Add([]byte(`{"width":{}}`))
	f.Add([]byte(`{"width":1,"names":[[[[`))
	f.Fuzz(func(t *testing.T, config []byte) {
		var s shelf
		if Read(config, s.members(), s.check) != nil {
			return
		}
		var twin struct {
			Open  bool
			Width uint64
			Label struct{ Text, Color string }
			Names []string
			Books []struct {
				Title string
				Pages uint64
			}
		}
		if err := json.NewDecoder(strings.NewReader(string(config))).Decode(&twin); err != nil {
			t.Fatalf("%s is accepted; another reader says %v", config, err)
		}
		if s.open != twin.Open || s.width != twin.Width || len(s.names) != len(twin.Names) || len(s.books) != len(twin.Books) {
			t.Errorf("%s: got %+v, want %+v", config, s, twin)
		}
	})
}
