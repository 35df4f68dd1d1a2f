package main

import (
	"errors"

	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// The metrics in the order in which the configuration has to declare them. The
// first label of each is class: the classes in their order, then default.
const (
	requestsTotal = iota // by class and verdict
	missedTotal          // by class and dimension
	creditTotal          // micro-units, by class
	ttftSeconds          // by class
)

// count counts a request that was judged.
func (o *config) count(j *judgement) error {
	place := uint32(j.place)
	err := wasmeter.MetricAdd(requestsTotal, place*uint32(numVerdicts)+uint32(j.verdict), 1)
	for d, is := range j.missed {
		if is {
			err = errors.Join(err, wasmeter.MetricAdd(missedTotal, place*uint32(numDimensions)+uint32(d), 1))
		}
	}
	if micro, _ := j.worth(); micro > 0 {
		err = errors.Join(err, wasmeter.MetricAdd(creditTotal, place, float64(micro)))
	}
	if m := j.measured[ttft]; m.over > 0 {
		const nsPerSecond = 1e9
		err = errors.Join(err, wasmeter.MetricObserve(ttftSeconds, place, float64(m.ns)/nsPerSecond))
	}
	return err
}

// checkMetrics compares the declared metrics with what will be counted: each has
// as many series as there are classes and values, and no more. It is asked in
// the self-test, so that what does not fit is refused when it is loaded.
func (o *config) checkMetrics() error {
	for i, m := range [...]struct {
		add    func(metric, series uint32, value float64) error
		labels uint32
		write  string
	}{
		requestsTotal: {wasmeter.MetricAdd, uint32(numVerdicts), "type: counter, labels: {class: [" + o.classNames() + "], verdict: [met, missed, excluded, unknown]}"},
		missedTotal:   {wasmeter.MetricAdd, uint32(numDimensions), "type: counter, labels: {class: [" + o.classNames() + "], dimension: [ttft, tpot, total, availability]}"},
		creditTotal:   {wasmeter.MetricAdd, 1, "type: counter, labels: {class: [" + o.classNames() + "]}"},
		ttftSeconds:   {wasmeter.MetricObserve, 1, "type: histogram, labels: {class: [" + o.classNames() + "]}"},
	} {
		series := uint32(o.numServices()) * m.labels
		if m.add(uint32(i), series-1, 0) != nil || m.add(uint32(i), series, 0) == nil {
			return errors.New("metrics[" + string(rune('0'+i)) + "] is not as config.metrics needs it; write {name: …, " + m.write + "}")
		}
	}
	return nil
}

// classNames lists the classes as the label's values.
func (o *config) classNames() string {
	text := ""
	for i := range o.services {
		text += o.services[i].Name + ", "
	}
	return text + o.otherwise.Name
}
