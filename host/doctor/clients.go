package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What clients do to names before a model sees them: they allow 64 characters in all
// and put 12 to 20 of their own before, such as mcp__drawbridge__.
const (
	clientLimit = 64
	clientLeast = 12
	clientMost  = 20
)

// namesShown bounds how many names a finding tells.
const namesShown = 3

func judgeNames(f Facts) []Finding {
	var all []Finding
	for _, p := range f.Projects {
		if len(p.Tools) == 0 {
			continue
		}
		all = append(all, judgeProjectNames(p))
	}
	return all
}

func judgeProjectNames(p Project) Finding {
	var long []string
	for _, t := range p.Tools {
		if len(t.Exposed)+clientMost > clientLimit {
			long = append(long, t.Exposed)
		}
	}
	slices.SortFunc(long, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	if len(long) == 0 {
		return ok(projectName(p), fmt.Sprintf("all %d fit the limits of known clients", len(p.Tools)))
	}
	who := "some clients"
	if len(long[0])+clientLeast > clientLimit {
		who = "most clients"
	}
	named := strings.Join(long[:min(namesShown, len(long))], ", ")
	if more := len(long) - namesShown; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return warning(projectName(p), fmt.Sprintf("over the limit of %s, which put %d to %d characters before a name and allow %d: %s",
		who, clientLeast, clientMost, clientLimit, named),
		fmt.Sprintf("set name_max = %d, which shortens them, or give the provider a shorter name", clientLimit-clientMost))
}

// What definitions cost: some four bytes make a token of English text and JSON. It is
// an estimate, and each model counts otherwise.
const (
	bytesPerToken = 4
	// manyTokens is an eighth of a context of 200,000, taken before a question is asked.
	manyTokens = 25_000
)

func judgeContext(f Facts) []Finding {
	var all []Finding
	for _, p := range f.Projects {
		all = append(all, judgeCost(p))
	}
	return all
}

func judgeCost(p Project) Finding {
	total, by := 0, map[string]int{}
	for _, t := range p.Tools {
		total += t.Bytes
		by[t.Provider] += t.Bytes
	}
	tokens := (total + bytesPerToken - 1) / bytesPerToken
	says := fmt.Sprintf("%s, an estimated %d tokens of context (%d bytes / %d)", count(len(p.Tools), "definition"), tokens, total, bytesPerToken)
	if len(p.Unlisted) > 0 {
		says += "; not counted, because nothing is known of it yet: " + strings.Join(p.Unlisted, ", ")
	}
	if tokens <= manyTokens {
		return ok(projectName(p), says)
	}
	return warning(projectName(p), says+"; the most is of "+largest(by),
		"leave out what is not needed, with tools and except in the provider's block or in a grant (docs/access.md)")
}

// largest is the provider with the most bytes.
func largest(by map[string]int) string {
	name := ""
	for slug, n := range by {
		if name == "" || n > by[name] || n == by[name] && slug < name {
			name = slug
		}
	}
	return name
}

func projectName(p Project) string {
	if p.Name == "" {
		return ""
	}
	return "project " + p.Name
}
