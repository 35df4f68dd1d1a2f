package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"

	"github.com/wasmeter/wasmeter/engine/gguf"
)

// ropeConfig says how positions are stretched, and from transformers 5 on the
// base of their frequencies too.
type ropeConfig struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"` // its name until transformers 4.43
	Theta    *float64 `json:"rope_theta"`
	Factor   float64  `json:"factor"`
	Low      float64  `json:"low_freq_factor"`
	High     float64  `json:"high_freq_factor"`
	Original float64  `json:"original_max_position_embeddings"`
}

func (r *ropeConfig) kind() string {
	if r.Type == "" {
		return r.OldType
	}
	return r.Type
}

// settleRope brings the new form of the configuration, rope_parameters, into the
// old one, and refuses what stretches positions in other ways.
func (c *config) settleRope() error {
	if c.RopeParameters != nil && c.RopeParameters.Kind() == '{' {
		var perLayer struct {
			Full    *ropeConfig `json:"full_attention"`
			Sliding *ropeConfig `json:"sliding_attention"`
		}
		if err := json.Unmarshal(c.RopeParameters, &perLayer); err != nil {
			return fmt.Errorf("rope_parameters: %w", err)
		}
		if perLayer.Full == nil {
			perLayer.Full = &ropeConfig{}
			if err := json.Unmarshal(c.RopeParameters, perLayer.Full); err != nil {
				return fmt.Errorf("rope_parameters: %w", err)
			}
		}
		if perLayer.Full.Theta != nil {
			c.RopeTheta = perLayer.Full.Theta
		}
		c.RopeScaling = perLayer.Full
		if s := perLayer.Sliding; s != nil {
			c.RopeLocalTheta = s.Theta
			if k := s.kind(); k != "" && k != "default" {
				return fmt.Errorf("rope_parameters: sliding_attention: rope_type %q is not supported; supported is default", k)
			}
		}
	}
	if c.RopeScaling == nil {
		return nil
	}
	switch s := c.RopeScaling; s.kind() {
	case "", "default":
		return nil
	case "linear":
		return s.check(s.Factor)
	case "llama3":
		if s.Low == s.High {
			return fmt.Errorf("rope_scaling: low_freq_factor and high_freq_factor are both %g", s.Low)
		}
		return s.check(s.Factor, s.Low, s.High, s.Original)
	}
	return fmt.Errorf("rope_scaling: rope_type %q is not supported; supported are default, linear and llama3", c.RopeScaling.kind())
}

func (r *ropeConfig) check(numbers ...float64) error {
	for _, x := range numbers {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("rope_scaling: rope_type %s: %g is not a positive number", r.kind(), x)
		}
	}
	return nil
}

// ropeFactors gives the tensor rope_freqs of Llama 3.1 and later: by how much
// each frequency is divided. Long waves are stretched by the factor, short ones
// not at all, those between in part. Source: _compute_llama3_parameters in
// transformers' modeling_rope_utils.py.
func (c *config) ropeFactors(theta float64) (gguf.Tensor, bool) {
	s := c.RopeScaling
	if s == nil || s.kind() != "llama3" {
		return gguf.Tensor{}, false
	}
	dims := c.headDim()
	t := gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []uint64{uint64(dims / 2)}}
	for i := range dims / 2 {
		wave := 2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dims))
		factor := 1.0
		switch {
		case wave > s.Original/s.Low:
			factor = s.Factor
		case wave >= s.Original/s.High:
			smooth := (s.Original/wave - s.Low) / (s.High - s.Low)
			factor = 1 / ((1-smooth)/s.Factor + smooth)
		}
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(factor)))
	}
	return t, true
}
