//go:build cuda && cgo && linux

package suite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/wasmeter/wasmeter/kernels/cuda"
	"github.com/wasmeter/wasmeter/kernels/cuda/driver"
)

// Bench is a device with the kernels, and the memory of the case that runs on it.
// It is used between the device's Enter and Leave.
//
// Its methods keep the first error, after which they do nothing and return zeros;
// Check and Measure return it.
type Bench struct {
	Device  *driver.Device
	Stream  *driver.Stream
	Kernels *cuda.Kernels
	// Rand is seeded anew by the name of each case, so that a case has the same
	// inputs alone and among others.
	Rand *rand.Rand

	begin, end *driver.Event
	err        error
	buffers    []driver.Ptr // of the running case
}

// NewBench loads the kernels. Close gives everything back but the device.
func NewBench(d *driver.Device) (*Bench, error) {
	b := &Bench{Device: d}
	var errs [4]error
	b.Kernels, errs[0] = cuda.New(d, cuda.Image())
	b.Stream, errs[1] = d.NewStream()
	b.begin, errs[2] = d.NewEvent()
	b.end, errs[3] = d.NewEvent()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close gives back what NewBench took.
func (b *Bench) Close() error {
	var errs []error
	if b.end != nil {
		errs = append(errs, b.end.Close())
	}
	if b.begin != nil {
		errs = append(errs, b.begin.Close())
	}
	if b.Stream != nil {
		errs = append(errs, b.Stream.Close())
	}
	if b.Kernels != nil {
		errs = append(errs, b.Kernels.Close())
	}
	return errors.Join(errs...)
}

// Check runs a case and returns what is wrong with the kernel, or with the device.
func (b *Bench) Check(c Case) error {
	b.prepare(c.Kernel + "/" + c.Name)
	wrong := c.Run(b)
	if err := b.finish(); err != nil {
		return err // what was compared did not come from the kernel
	}
	return wrong
}

// Measure times a Speed.
func (b *Bench) Measure(s Speed, shrink int) (Measurement, error) {
	b.prepare(s.Kernel + "/" + s.Name)
	w := s.Prepare(b, shrink)
	m := Measurement{Kernel: s.Kernel, Name: s.Name, Bytes: w.Bytes, FLOPs: w.FLOPs}
	// Launches get closer together than the host can make them as soon as they are
	// many; the first few bring the clocks up.
	const warm, timed = 3, 20
	for range warm {
		b.Do(w.Launch())
	}
	b.Do(b.Stream.Record(b.begin))
	for range timed {
		b.Do(w.Launch())
	}
	b.Do(b.Stream.Record(b.end))
	b.Sync()
	if b.err == nil {
		total, err := b.end.Since(b.begin)
		b.Do(err)
		m.Time = total / timed
	}
	return m, b.finish()
}

func (b *Bench) prepare(name string) {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	b.Rand = rand.New(rand.NewPCG(hash.Sum64(), 0))
	b.err = nil
}

// finish frees the case's memory and returns the first error.
func (b *Bench) finish() error {
	for _, p := range b.buffers {
		b.Do(b.Device.Free(p))
	}
	b.buffers = b.buffers[:0]
	return b.err
}

// Do keeps an error.
func (b *Bench) Do(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Sync waits for all that was launched.
func (b *Bench) Sync() {
	if b.err == nil {
		b.err = b.Stream.Sync()
	}
}

// Empty is new memory of the case.
func (b *Bench) Empty(bytes int) driver.Ptr {
	if b.err != nil {
		return 0
	}
	p, err := b.Device.Alloc(int64(max(bytes, 1)))
	if err != nil {
		b.err = err
		return 0
	}
	b.buffers = append(b.buffers, p)
	return p
}

// Zeros is new memory of zeros.
func (b *Bench) Zeros(bytes int) driver.Ptr {
	p := b.Empty(bytes)
	if b.err == nil {
		b.err = b.Stream.Fill(p, 0, int64(bytes))
	}
	return p
}

// Bytes is new memory of these bytes.
func (b *Bench) Bytes(data []byte) driver.Ptr {
	p := b.Empty(len(data))
	if b.err != nil || len(data) == 0 {
		return p
	}
	pinned, err := b.Device.Pinned(len(data))
	if err != nil {
		b.err = err
		return p
	}
	copy(pinned.Bytes(), data)
	b.err = errors.Join(b.Stream.CopyToDevice(p, pinned, 0, len(data)), b.Stream.Sync(), pinned.Free())
	return p
}

// ReadBytes waits for the device and returns the bytes at p.
func (b *Bench) ReadBytes(p driver.Ptr, bytes int) []byte {
	data := make([]byte, bytes)
	if b.err != nil || bytes == 0 {
		return data
	}
	pinned, err := b.Device.Pinned(bytes)
	if err != nil {
		b.err = err
		return data
	}
	if b.err = errors.Join(b.Stream.CopyToHost(pinned, 0, p, bytes), b.Stream.Sync()); b.err == nil {
		copy(data, pinned.Bytes())
	}
	b.err = errors.Join(b.err, pinned.Free())
	return data
}

// Floats is new memory of float32.
func (b *Bench) Floats(values []float32) driver.Ptr {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return b.Bytes(data)
}

// ReadFloats waits for the device and returns n float32 at p.
func (b *Bench) ReadFloats(p driver.Ptr, n int) []float32 {
	data := b.ReadBytes(p, 4*n)
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return values
}

// Halves is new memory of float16, given as their bits.
func (b *Bench) Halves(values []uint16) driver.Ptr {
	data := make([]byte, 0, 2*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint16(data, v)
	}
	return b.Bytes(data)
}

// ReadHalves waits for the device and returns n float16 at p.
func (b *Bench) ReadHalves(p driver.Ptr, n int) []uint16 {
	data := b.ReadBytes(p, 2*n)
	values := make([]uint16, n)
	for i := range values {
		values[i] = binary.LittleEndian.Uint16(data[2*i:])
	}
	return values
}

// Ints is new memory of int32.
func (b *Bench) Ints(values []int32) driver.Ptr {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return b.Bytes(data)
}

// Normal returns n values of a normal distribution of standard deviation size.
func (b *Bench) Normal(n int, size float32) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = size * float32(b.Rand.NormFloat64())
	}
	return values
}

// numbered makes names of sizes: numbered("rows", 3, "cols", 77) is "3 rows, 77 cols".
func numbered(list ...any) string {
	name := ""
	for i := 0; i+1 < len(list); i += 2 {
		if i > 0 {
			name += ", "
		}
		name += fmt.Sprintf("%v %v", list[i+1], list[i])
	}
	return name
}
