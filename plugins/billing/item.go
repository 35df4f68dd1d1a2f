package main

// item is something that has a price.
type item uint8

// Items. Those of tokens come first: their prices are for a million.
const (
	input item = iota
	cachedInput
	cacheWrite
	image
	audio
	output
	reasoning
	numTokenItems

	request item = iota - 1
	toolCall
	deviceSecond
	numItems
)

// itemNames are the items in the words of the configuration and of records.
var itemNames = [numItems]string{
	"input", "cached_input", "cache_write", "image", "audio", "output", "reasoning",
	"request", "tool_call", "device_second",
}

// part is what an item is a part of: tokens of an item without a price of its
// own are priced as those.
func (i item) part() item {
	if i == reasoning {
		return output
	}
	return input
}

// Prices are micro-units of the currency: for a million tokens, for a request,
// a tool call and a second of the device. These limits keep the cost of the
// largest request that a frame can describe within 128 bits, and a misplaced
// unit out.
const (
	mostPrice       = 1_000_000_000_000 // a million of the currency
	mostDevicePrice = 1_000_000_000     // a thousand of it for a second
)

// most is the highest price that the item may have.
func (i item) most() uint64 {
	if i == deviceSecond {
		return mostDevicePrice
	}
	return mostPrice
}

// each says what the price is for.
func (i item) each() string {
	switch i {
	case request:
		return "for a request"
	case toolCall:
		return "for a tool call"
	case deviceSecond:
		return "for a second of the device"
	}
	return "for a million tokens"
}

// unit is what one of the item, as it is counted, costs at a price of 1, in
// femto-units of the currency (10^-15): a token is a millionth of a micro-unit,
// a nanosecond of the device a billionth.
func (i item) unit() uint64 {
	switch {
	case i < numTokenItems:
		return 1_000
	case i == deviceSecond:
		return 1
	}
	return 1_000_000_000
}
