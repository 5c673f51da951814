package doctor

import (
	"fmt"
	"slices"
)

func judgeConfig(f Facts) []Finding {
	c := f.Config
	if c == nil {
		return nil
	}
	if c.Path == "" {
		return []Finding{problem("", c.Missing, "bring what your clients have with drawbridge init, write one (docs/providers.md has blocks to copy), or name yours with --config")}
	}
	var all []Finding
	errors := 0
	for _, m := range c.Mistakes {
		says := m.Summary
		if m.Warning {
			all = append(all, warning(m.Where, says, remedyOf(m)))
			continue
		}
		errors++
		all = append(all, problem(m.Where, says, remedyOf(m)))
	}
	if errors == 0 {
		says := fmt.Sprintf("found and valid: %s", count(c.Providers, "provider"))
		if c.Disabled > 0 {
			says += fmt.Sprintf(", %d of them not enabled", c.Disabled)
		}
		all = append([]Finding{ok(c.Path, says)}, all...)
	}
	return all
}

// usable says whether the configuration is there and has no mistakes that keep a host
// from starting. Without facts about it there is nothing to say.
func (c *Config) usable() bool {
	if c == nil {
		return true
	}
	return c.Path != "" && !slices.ContainsFunc(c.Mistakes, func(m Mistake) bool { return !m.Warning })
}

// remedyOf is the detail of a diagnostic, which says what to do.
func remedyOf(m Mistake) string {
	if m.Detail != "" {
		return m.Detail
	}
	return "see the line, and docs/troubleshoot"
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
