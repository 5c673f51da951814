package containment

import "os"

// tiers are those of this system, best first. The process group is none of them:
// where there is Linux, there are subreapers.
func tiers() []Tier { return []Tier{TierPIDNS, TierSubreaper} }

// variants are the ways to have a tier, the simplest first.
func variants(tier Tier) []Support {
	switch tier {
	case TierPIDNS:
		own, withUsers := Support{Tier: tier}, Support{Tier: tier, userns: true}
		if os.Geteuid() != 0 {
			return []Support{withUsers}
		}
		return []Support{own, withUsers} // root in a container may lack CAP_SYS_ADMIN
	case TierSubreaper, TierPGroup:
		return []Support{{Tier: tier}}
	default:
		return nil
	}
}
