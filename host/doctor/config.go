package doctor

import "fmt"

func judgeConfig(f Facts) []Finding {
	c := f.Config
	if c == nil {
		return nil
	}
	if c.Path == "" {
		return []Finding{problem("", c.Missing, "write one (docs/providers.md has blocks to copy), or name it with --config")}
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

// remedyOf is the detail of a diagnostic, which says what to do.
func remedyOf(m Mistake) string {
	if m.Detail != "" {
		return m.Detail
	}
	return "see the line, and docs/troubleshoot.md"
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
