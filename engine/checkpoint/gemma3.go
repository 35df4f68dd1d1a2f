package checkpoint

import "slices"

// gemma3Keys adds the window of local layers, of which each last of a period sees
// all positions, and makes sure that queries are scaled as the model does it.
func gemma3Keys(k *keys, c *config) {
	k.count("attention.sliding_window", "sliding_window", c.SlidingWindow)
	period := c.SlidingWindowPattern
	if i := slices.Index(c.LayerTypes, fullAttention); period == nil && c.LayerTypes != nil {
		n := uint32(i + 1)
		if i < 0 { // none of them
			n = uint32(len(c.LayerTypes) + 1)
		}
		period = &n
	}
	if period != nil {
		k.count("attention.sliding_window_pattern", "sliding_window_pattern", period)
		for i, t := range c.LayerTypes {
			if full := *period > 0 && (i+1)%int(*period) == 0; full != (t == fullAttention) {
				k.fault("layer_types: layer %d is %.40q, but a period of %d begins the list: other orders are not supported", i, t, *period)
				break
			}
		}
	}
	k.float("rope.freq_base_swa", orDefault(c.RopeLocalTheta, 10000))
	if c.QueryScalar == nil || c.Layers == nil || c.HiddenSize == nil || c.Heads == nil || *c.Heads == 0 {
		return
	}
	want := float64(c.headDim())
	if *c.Layers == 62 { // the 27B model: see the engine's gemma3
		want = float64(*c.HiddenSize / *c.Heads)
	}
	if *c.QueryScalar != want {
		k.fault("query_pre_attn_scalar: found %g, only %g is supported in a model of %d layers", *c.QueryScalar, want, *c.Layers)
	}
}
