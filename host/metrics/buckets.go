package metrics

// Upper bounds of the histograms, as vLLM 0.32 has them; +Inf comes by itself.
var (
	requestLatencyBuckets     = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	timeToFirstTokenBuckets   = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	interTokenLatencyBuckets  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	iterationTokensBuckets    = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	requestParamsNBuckets     = []float64{1, 2, 5, 10, 20}
	requestPreemptionsBuckets = []float64{1, 2, 3, 4, 5, 10, 20}

	// A step takes about a token's time, on the simulated device down to 1 ms.
	stepBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 2.5, 5, 10}

	// The HTTP side, as vLLM's too.
	httpDurationBuckets     = []float64{0.1, 0.5, 1}
	httpDurationHighBuckets = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}

	// Plugin calls take microseconds; the default budget of fuel ends within 20 ms,
	// and 50 ms count as a failure.
	pluginDurationBuckets = []float64{1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 1}

	// A small guest uses some hundred units of fuel, the default plugin 400,000;
	// 5 M are the default budget, 100 M what a guest with a garbage collection
	// needs.
	pluginFuelBuckets = []float64{1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 5e5, 1e6, 2.5e6, 5e6, 1e7, 2.5e7, 1e8, 1e9}
)

// requestTokensBuckets is 1, 2, 5, 10, 20, 50 … up to the longest sequence.
func requestTokensBuckets(context int) []float64 {
	var bounds []float64
	for decade := 1; decade <= context; decade *= 10 {
		for _, m := range [...]int{1, 2, 5} {
			if b := m * decade; b <= context {
				bounds = append(bounds, float64(b))
			}
		}
	}
	return bounds
}
