package main

import (
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
)

// TestNobodyStartsAProviderWhileItPassesOn: between the look whether it runs and the new
// policy, no call of its owner before is let through; and where it runs, nothing has changed.
func TestNobodyStartsAProviderWhileItPassesOn(t *testing.T) {
	of := func(shop, bank string) *access.Policy {
		return access.New(access.Spec{Projects: []access.Project{{Name: "site", Grants: []*access.Grant{
			{Principals: []string{shop}, Provider: "shop", Tools: []string{"*"}},
			{Principals: []string{bank}, Provider: "bank", Tools: []string{"*"}},
		}}}})
	}
	before, after := of("ada", "ada"), of("ben", "ada")
	for _, running := range []bool{false, true} {
		gate := access.NewGate(access.GateOptions{}, before)
		may := func(who, provider string) bool {
			return gate.Policy().Decide(who, "site", access.Item{Kind: access.KindTool, Provider: provider, Name: "pay"}).Allowed
		}
		looks := 0
		got := swapUnlessRunning(gate, after, []string{"shop"}, func(slug string) bool {
			if looks++; slug != "shop" || may("ada", "shop") || may("ben", "shop") || !may("ada", "bank") {
				t.Errorf("at the look at %s: ada may %v, ben may %v; ada and the bank: %v", slug, may("ada", "shop"), may("ben", "shop"), may("ada", "bank"))
			}
			return running
		})
		want, inForce := []string(nil), after
		if running {
			want, inForce = []string{"shop"}, before
		}
		if looks != 1 || !slices.Equal(got, want) || gate.Policy() != inForce {
			t.Errorf("running %v: %v after %d looks, the new policy is in force: %v", running, got, looks, gate.Policy() == after)
		}
	}
	gate := access.NewGate(access.GateOptions{}, before)
	if got := swapUnlessRunning(gate, after, nil, nil); got != nil || gate.Policy() != after {
		t.Errorf("where nothing passes on: %v", got)
	}
}
