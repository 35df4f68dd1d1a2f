package main

import (
	"github.com/wasmeter/wasmeter/plugins/internal/outcome"
	"github.com/wasmeter/wasmeter/plugins/internal/settings"
	wasmeter "github.com/wasmeter/wasmeter/sdk/go"
)

// rule is what a request pays that ended in some way.
type rule uint8

const (
	payMade      rule = iota // what was made
	payDelivered             // the same, with the completion tokens that reached the client
	payNothing
	payBack // what was made, and a credit of as much
	byGroup // as the outcome's group does
)

// ruleNames are those that a configuration may name.
var ruleNames = [...]string{payMade: "made", payDelivered: "delivered", payNothing: "free", payBack: "credit"}

const numOutcomes = wasmeter.CrashRecovered + 1

// policy is the rules of requests that did not come to their own end. Those
// that did pay what was made, by any policy.
type policy struct {
	groups   [outcome.NumGroups]rule
	outcomes [numOutcomes]rule
}

// newPolicy has the rules that hold without a word. A deadline is the client's
// own wish, so what was made until then is paid.
func newPolicy() policy {
	var p policy
	p.groups = [outcome.NumGroups]rule{outcome.Aborted: payMade, outcome.Failed: payNothing, outcome.Denied: payNothing}
	for o := range p.outcomes {
		p.outcomes[o] = byGroup
	}
	p.outcomes[wasmeter.Deadline] = payMade
	return p
}

// groupNames are the groups of outcomes in a configuration. The last one is
// named as one of its outcomes.
var groupNames = [outcome.NumGroups]string{outcome.Aborted: "aborted", outcome.Failed: "failed", outcome.Denied: "denied"}

// members are the groups, and the outcomes, whose own rules win.
func (p *policy) members() settings.Members {
	var all settings.Members
	for g := outcome.Aborted; g < outcome.NumGroups; g++ {
		all = append(all, settings.Member{Name: groupNames[g], Value: settings.Word(&p.groups[g], ruleNames[:]...)})
	}
	for o := range numOutcomes {
		if outcome.GroupOf(o) != outcome.Complete && o != wasmeter.Denied {
			all = append(all, settings.Member{Name: outcome.Name(o), Value: settings.Word(&p.outcomes[o], ruleNames[:]...)})
		}
	}
	return all
}

// complete reports whether a request came to its own end, or runs towards it.
func complete(o wasmeter.Outcome) bool { return outcome.GroupOf(o) == outcome.Complete }

// rule gives the rule of an outcome.
func (p *policy) rule(o wasmeter.Outcome) rule {
	if o < numOutcomes && p.outcomes[o] != byGroup {
		return p.outcomes[o]
	}
	return p.groups[outcome.GroupOf(o)]
}
