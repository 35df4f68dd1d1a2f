//go:build cuda && cgo && linux

package driver_test

import "testing"

// BenchmarkLaunch is the host's side of a launch with 12 arguments, the emulated
// driver's bookkeeping included: launches are recorded, so none runs.
func BenchmarkLaunch(b *testing.B) {
	d := open(b)
	args := []uint64{uint64(d.y), uint64(d.x), elements, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	b.ReportAllocs()
	b.ResetTimer()
	const most = 4096 // launches of a recording, so that it does not grow without end
	for left := b.N; left > 0; left -= most {
		graph, err := d.stream.Capture(func() error {
			for range min(left, most) {
				if err := d.stream.Launch(d.add, shape, args); err != nil {
					return err
				}
			}
			return nil
		})
		b.StopTimer()
		d.must(err)
		d.must(graph.Close())
		b.StartTimer()
	}
}

// BenchmarkLaunchGraph is a graph of one small kernel: launched, run by the
// emulated driver, and waited for.
func BenchmarkLaunchGraph(b *testing.B) {
	d := open(b)
	d.start()
	graph, err := d.stream.Capture(d.launch)
	d.must(err)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.stream.LaunchGraph(graph); err != nil {
			b.Fatal(err)
		}
		if err := d.stream.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	d.must(graph.Close())
}
