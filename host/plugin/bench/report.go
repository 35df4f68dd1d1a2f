package bench

import "slices"

// Report is what a plugin takes.
type Report struct {
	SHA256 string `json:"sha256"`
	Frames int    `json:"frames"` // different ones, that calls take in turn
	Hooks  []Hook `json:"hooks"`
	// Instances are those that there are at the end; Recycled were thrown away,
	// after a failure or as the isolation asks.
	Instances int    `json:"instances"`
	Recycled  uint64 `json:"recycled"`
}

// Hook is what one hook takes.
type Hook struct {
	Hook  string `json:"hook"`
	Calls int    `json:"calls"`
	Time  Times  `json:"time"`
	Fuel  Fuel   `json:"fuel"`
	// MemoryBefore is the linear memory before the first counted call,
	// MemoryAfter the most that there was behind one.
	MemoryBefore int64 `json:"memory_before_bytes"`
	MemoryAfter  int64 `json:"memory_after_bytes"`
	// HostAllocs and HostBytes are what the host allocates for a call.
	HostAllocs float64 `json:"host_allocs"`
	HostBytes  float64 `json:"host_alloc_bytes"`
	// Failures counts failed calls by kind. They are calls like others.
	Failures map[string]int `json:"failures"`
	// Failure is what the last failed call said; empty if none failed.
	Failure string `json:"failure,omitempty"`
	// Denied is how many requests the plugin refused, the last one with Denial. The other
	// hooks are called all the same: a server would not.
	Denied int    `json:"denied,omitempty"`
	Denial string `json:"denial,omitempty"`
	// Native is the same source as an ordinary Go program, if it was measured.
	Native *Times `json:"native,omitempty"`
}

// Times are of a call, in nanoseconds. The last ones have the guest's garbage
// collections in them, and the machine's other work.
type Times struct {
	Mean int64 `json:"mean_ns"`
	P50  int64 `json:"p50_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p99_9_ns"`
	Max  int64 `json:"max_ns"`
}

// Fuel is the fuel of a call, in the units of the meter.
type Fuel struct {
	Min int64 `json:"min"`
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

// timesOf sorts durations and says how they lie.
func timesOf(ns []int64) Times {
	if len(ns) == 0 {
		return Times{}
	}
	slices.Sort(ns)
	var sum int64
	for _, v := range ns {
		sum += v
	}
	return Times{sum / int64(len(ns)), rank(ns, 500), rank(ns, 990), rank(ns, 999), ns[len(ns)-1]}
}

func fuelOf(units []int64) Fuel {
	if len(units) == 0 {
		return Fuel{}
	}
	slices.Sort(units)
	return Fuel{units[0], rank(units, 500), rank(units, 990), units[len(units)-1]}
}

// rank gives the lowest of sorted values that a share of them, in thousandths,
// does not exceed.
func rank(sorted []int64, thousandths int) int64 {
	return sorted[max((len(sorted)*thousandths+999)/1000, 1)-1]
}
