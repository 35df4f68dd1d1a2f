package plugin

import (
	"errors"
	"fmt"
)

// Budgets of a call, in units of fuel; package meter says what costs how
// much. A unit may take up to 4 ns, so that a call ends within 20 ms.
const (
	defaultFuel = 5_000_000
	maxFuel     = 1_000_000_000_000
)

// InitFuel is the budget of the first instance's init; a Go runtime needs 18 M
// to start.
const InitFuel = 1_000_000_000

// quickStart is the fuel of an init that a request may wait for: its budget is
// then three times this, which takes 60 ms at most. Others run aside of the
// request, see pool.makeAside.
const quickStart = defaultFuel

// startFuel is the budget of an instance's init. The first one is made at
// load; the others do the same once more.
func (p *Plugin) startFuel() int64 {
	if p.pool == nil {
		return InitFuel
	}
	return min(InitFuel, 2*p.startSpent+defaultFuel)
}

// What a call of the host costs besides the guest's own work: about what it
// takes, at the rate of the guest's instructions.
const (
	hostCallFuel = 200 // the way out of the guest and back
	hostByteFuel = 2   // each byte that the host copies or makes
)

// importFuel is the fuel of the imports that do more.
var importFuel = map[string]int64{
	"log":            5_000,
	"emit":           10_000,
	"kv_get":         2_000,
	"kv_set":         2_000,
	"kv_add":         2_000,
	"metric_add":     500,
	"metric_observe": 500,
	"fd_write":       500,
}

func fuelOfImport(name string) int64 {
	if units, found := importFuel[name]; found {
		return units
	}
	return hostCallFuel
}

// errOutOfFuel stops a guest in a call of the host; elsewhere it traps by
// itself.
var errOutOfFuel = errors.New("out of fuel")

// refuel gives the guest the budget of one call: what asks for its buffer and
// the hook share it.
func (in *instance) refuel(units int64) {
	in.budget = units
	in.fuel.Set(uint64(units))
}

// charge takes fuel for what the host does for the guest, before it is done.
// It ends the guest's call if there is not enough.
func (in *instance) charge(units int64) {
	left := int64(in.fuel.Get()) - units
	in.fuel.Set(uint64(left))
	if left < 0 {
		panic(errOutOfFuel) // to wazero, which makes it the call's error
	}
}

// spent gives the fuel used since refuel.
func (in *instance) spent() int64 { return in.budget - int64(in.fuel.Get()) }

// outOfFuel explains a call that did not return because its fuel was used
// up, and gives nil for one that had another reason.
func (in *instance) outOfFuel() error {
	if int64(in.fuel.Get()) >= 0 {
		return nil
	}
	return fmt.Errorf("%w: it used up its %d units", errOutOfFuel, in.budget)
}
