package openai

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of lists in a request. They are above what OpenAI takes, and keep one small body from costing much.
const (
	maxChoices      = 128
	maxStops        = 16
	maxStopBytes    = 1024 // a stop string is held back from the stream until it is decided
	maxStopTokens   = 128
	maxBiases       = 1024
	maxTopLogprobs  = 20
	maxMetadataSize = 16 << 10
)

// Generation is what the three generating endpoints share. Absent values are left to the host's defaults.
type Generation struct {
	Model string // required

	Stream        bool
	StreamOptions StreamOptions
	N             int // choices for each prompt, 1 to 128

	MaxTokens      Opt[int] // output tokens
	MaxTokensParam string   // the field that MaxTokens came from, for a refusal that needs the context's length
	MinTokens      int
	Stop           []string // up to 16, none empty
	StopTokenIDs   []int
	IncludeStop    bool // leave the stop string in the text
	IgnoreEOS      bool

	Temperature       Opt[float64] // 0 to 2
	TopP              Opt[float64] // above 0, at most 1
	MinP              Opt[float64] // 0 to 1
	TopK              Opt[int]     // -1 and 0: all
	PresencePenalty   Opt[float64] // -2 to 2
	FrequencyPenalty  Opt[float64] // -2 to 2
	RepetitionPenalty Opt[float64] // above 0
	Seed              Opt[int64]
	LogitBias         []TokenBias // ascending token ids
	Logprobs          Opt[int]    // alternatives for each token, 0 to 20; set if log probabilities are wanted

	AddSpecialTokens Opt[bool] // whether the tokenizer adds its own, such as BOS

	Priority         int    // lower runs first
	CacheSalt        string // only requests with the same one share computed prefixes
	ServiceTier      string
	User             string
	SafetyIdentifier string
	PromptCacheKey   string
	Store            Opt[bool]
	Metadata         jsontext.Value // an object, without white space, or nil
}

// TokenBias is added to the logit of a token, -100 to 100.
type TokenBias struct {
	Token int
	Bias  float64
}

// field takes the member if it is one that the endpoints share.
func (g *Generation) field(d *decoder, name string, v jsontext.Value) bool {
	switch name {
	case "model":
		g.Model = d.text(name, v)
	case "stream":
		g.Stream = d.bool(name, v)
	case "stream_options":
		g.StreamOptions.decode(d, v)
	case "service_tier":
		g.ServiceTier = d.text(name, v)
	case "user":
		g.User = d.text(name, v)
	case "safety_identifier":
		g.SafetyIdentifier = d.text(name, v)
	case "prompt_cache_key":
		g.PromptCacheKey = d.text(name, v)
	case "cache_salt":
		if g.CacheSalt = d.text(name, v); g.CacheSalt == "" && v.Kind() == '"' {
			d.fault(name, "must not be empty; leave it out to share prefixes with all that may")
		}
	case "store":
		g.Store = Some(d.bool(name, v))
	case "metadata":
		if v.Kind() != '{' || len(v) > maxMetadataSize {
			d.fault(name, "must be an object of at most %d bytes, got %s", maxMetadataSize, found(v))
		} else {
			g.Metadata = compact(v)
		}
	case "priority":
		g.Priority = int(d.integer(name, v, math.MinInt32, math.MaxInt32).Value)
	case "add_special_tokens":
		g.AddSpecialTokens = Some(d.bool(name, v))
	case "skip_special_tokens":
		if !d.bool(name, v) {
			d.fault(name, "special tokens in the text are not available; leave this out")
		}
	default:
		return g.sampling(d, name, v) || g.ending(d, name, v)
	}
	return true
}

// sampling takes the members that shape the choice of each token.
func (g *Generation) sampling(d *decoder, name string, v jsontext.Value) bool {
	switch name {
	case "temperature":
		g.Temperature = d.number(name, v, interval{low: 0, high: 2})
	case "top_p":
		g.TopP = d.number(name, v, interval{low: 0, high: 1, above: true})
	case "min_p":
		g.MinP = d.number(name, v, interval{low: 0, high: 1})
	case "top_k":
		g.TopK = d.count(name, v, -1)
	case "presence_penalty":
		g.PresencePenalty = d.number(name, v, interval{low: -2, high: 2})
	case "frequency_penalty":
		g.FrequencyPenalty = d.number(name, v, interval{low: -2, high: 2})
	case "repetition_penalty":
		g.RepetitionPenalty = d.number(name, v, interval{low: 0, high: math.Inf(1), above: true})
	case "seed":
		g.Seed = d.integer(name, v, math.MinInt64, math.MaxInt64)
	case "logit_bias":
		g.LogitBias = d.logitBias(name, v)
	default:
		return false
	}
	return true
}

// ending takes the members that say when the output ends.
func (g *Generation) ending(d *decoder, name string, v jsontext.Value) bool {
	switch name {
	case "stop":
		g.Stop = d.stops(name, v)
	case "stop_token_ids":
		g.StopTokenIDs = d.tokenIDs(name, v, maxStopTokens)
	case "include_stop_str_in_output":
		g.IncludeStop = d.bool(name, v)
	case "ignore_eos":
		g.IgnoreEOS = d.bool(name, v)
	case "min_tokens":
		g.MinTokens = d.count(name, v, 0).Value
	default:
		return false
	}
	return true
}

// check notes the faults that only the whole request shows.
func (g *Generation) check(d *decoder) {
	if g.Model == "" {
		d.fault("model", "is required; /v1/models lists the models")
	}
	if g.StreamOptions.given && !g.Stream {
		d.fault("stream_options", "is only allowed with stream true")
	}
	if g.MaxTokens.Set && g.MinTokens > g.MaxTokens.Value {
		d.fault("min_tokens", "must be at most %s (%d), got %d", g.MaxTokensParam, g.MaxTokens.Value, g.MinTokens)
	}
}

func (d *decoder) stops(param string, v jsontext.Value) []string {
	var stops []string
	one := func(param string, v jsontext.Value) {
		s := d.text(param, v)
		if v.Kind() == '"' && (s == "" || len(s) > maxStopBytes) {
			d.fault(param, "must be a string of 1 to %d bytes, got %d", maxStopBytes, len(s))
		}
		stops = append(stops, s)
	}
	switch v.Kind() {
	case '"':
		one(param, v)
	case '[':
		d.list(param, v, one)
		if len(stops) > maxStops {
			d.fault(param, "must be at most %d strings, got %d", maxStops, len(stops))
		}
	default:
		d.fault(param, "must be a string or a list of strings, got %s", found(v))
	}
	return stops
}

// tokenIDs is a list of token ids. Whether they are in the vocabulary is for the host to say.
func (d *decoder) tokenIDs(param string, v jsontext.Value, most int) []int {
	var ids []int
	d.list(param, v, func(param string, v jsontext.Value) {
		ids = append(ids, d.count(param, v, 0).Value)
	})
	if len(ids) > most {
		d.fault(param, "must be at most %d token ids, got %d", most, len(ids))
	}
	return ids
}

func (d *decoder) logitBias(param string, v jsontext.Value) []TokenBias {
	var biases []TokenBias
	d.object(param, v, func(name string, v jsontext.Value) {
		token, err := strconv.ParseInt(name, 10, 32)
		if err != nil || token < 0 || strconv.Itoa(int(token)) != name { // "+7" and "07" would be a second 7
			d.fault(param, "keys must be token ids, got %s", quoted(name))
			return
		}
		bias := d.number(param+"."+name, v, interval{low: -100, high: 100})
		biases = append(biases, TokenBias{int(token), bias.Value})
	})
	if len(biases) > maxBiases {
		d.fault(param, "must be at most %d token ids, got %d", maxBiases, len(biases))
	}
	slices.SortFunc(biases, func(a, b TokenBias) int { return cmp.Compare(a.Token, b.Token) })
	return biases
}
