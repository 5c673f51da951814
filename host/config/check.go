package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// What one attribute cannot tell alone is checked here: labels, references, and
// values that have to agree.

func (h *Host) check(d *decoder, src *hclsyntax.Block) {
	h.Range = src.DefRange()
	d.host = src
}

func (d *decoder) addProvider(c *Config, p *Provider, src *hclsyntax.Block) {
	p.Label, p.Range, p.ConfigRange = src.Labels[0], src.DefRange(), src.DefRange()
	p.Body = &hclsyntax.Body{SrcRange: p.Range, EndRange: p.Range}
	for _, block := range src.Body.Blocks {
		if block.Type == "config" {
			p.Body, p.ConfigRange = block.Body, block.DefRange()
			break
		}
	}
	p.Missing, d.missing, p.broken = d.missing, nil, d.inBroken
	p.checkTimes(d, src)
	d.providers = append(d.providers, declared[*Provider]{p, src})
	slug, err := Slug(p.Label)
	before := slices.IndexFunc(d.providers, func(o declared[*Provider]) bool { return o.value.Slug == slug })
	p.Slug = slug
	switch {
	case err != nil:
		d.errorf(src.LabelRanges[0], "Bad label of a provider", "The label %s, when letters are lower case and all else becomes a dash.", err)
	case before >= 0:
		d.errorf(src.LabelRanges[0], fmt.Sprintf("Second provider %q", p.Slug),
			"Names of tools, files and processes are made of %q, and the provider at %s has it already. Give one of them another label.", p.Slug, where(d.providers[before].value.Range))
	default:
		c.Providers = append(c.Providers, p)
	}
}

// checkTimes compares times and sizes of which one bounds another. The message
// goes to the one that stands in the file, for the other may be a default.
func (p *Provider) checkTimes(d *decoder, src *hclsyntax.Block) {
	if p.Limits.CallTimeout > p.Limits.CallTimeoutMax {
		d.disagree(src, "limits", "call_timeout", formatDuration(p.Limits.CallTimeout), "call_timeout_max", formatDuration(p.Limits.CallTimeoutMax))
	}
	if p.Restart.Backoff > p.Restart.BackoffMax {
		d.disagree(src, "restart", "backoff", formatDuration(p.Restart.Backoff), "backoff_max", formatDuration(p.Restart.BackoffMax))
	}
	if p.Limits.InlineResult > p.Limits.MaxMessage {
		d.disagree(src, "limits", "inline_result", formatSize(p.Limits.InlineResult), "max_message", formatSize(p.Limits.MaxMessage))
	}
}

func (d *decoder) disagree(src *hclsyntax.Block, block, low, lowValue, high, highValue string) {
	at := low
	if !stands(src, block, low) {
		at = high
	}
	d.errorf(rangeIn(src, block, at), fmt.Sprintf("%s over %s", low, high),
		"%s is %s and %s is %s: raise %s or lower %s.", low, lowValue, high, highValue, high, low)
}

// finish checks what needs all files.
func (c *Config) finish(d *decoder) {
	slices.SortFunc(c.Providers, func(a, b *Provider) int { return cmp.Compare(a.Slug, b.Slug) })
	if c.Host.StateDir == "" && !d.partial {
		d.diags = append(d.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No folder for the host's state",
			Detail: "This process has no home folder. Set state_dir in the block host."})
	}
	for _, one := range d.providers {
		c.checkPluginOf(d, one.value, one.src)
		c.checkNameOf(d, one.value, one.src)
		c.checkGraceOf(d, one.value, one.src)
	}
	c.checkListener(d)
	c.checkAccess(d)
	if len(c.Providers) == 0 && !d.partial && !d.diags.HasErrors() {
		d.diags = append(d.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "No provider",
			Detail: "Nothing is declared, so nothing is offered. Add a block provider."})
	}
}

func (c *Config) checkPluginOf(d *decoder, p *Provider, src *hclsyntax.Block) {
	known := slices.Concat(Builtin, slices.Sorted(maps.Keys(c.Plugins)))
	if p.Plugin == "" || slices.Contains(known, p.Plugin) || d.partial || c.findPlugin(p, src) {
		return
	}
	at, summary := rangeIn(src, "plugin"), "Unknown plugin"
	if near := nearest(p.Plugin, known); near != "" {
		d.errorf(at, summary, "Did you mean %q?", near)
		return
	}
	d.errorf(at, summary, "Built in: %s. Declare any other with a block plugin, or put its file %s into plugin_dir.", strings.Join(Builtin, ", "), pluginPrefix+p.Plugin)
}

// pluginPrefix begins the file name of a plugin that is found by its name.
const pluginPrefix = "drawbridge-provider-"

// findPlugin looks in plugin_dir for the plugin that a provider names. Whether it
// may run is the lock file's to say.
func (c *Config) findPlugin(p *Provider, src *hclsyntax.Block) bool {
	if slug, err := Slug(p.Plugin); c.Host.PluginDir == "" || err != nil || slug != p.Plugin || slices.Contains(Builtin, p.Plugin) {
		return false
	}
	path := filepath.Join(c.Host.PluginDir, pluginPrefix+p.Plugin)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	c.Plugins[p.Plugin] = &Plugin{Name: p.Plugin, Path: path, Found: true, Range: rangeIn(src, "plugin")}
	return true
}

// nameRest is the least room a tool's own name needs after slug and "_": one
// character, "_" and the eight digits of a name that was shortened.
const nameRest = 1 + 1 + 8

func (c *Config) checkNameOf(d *decoder, p *Provider, src *hclsyntax.Block) {
	if c.Host.Names == "prefixed" && len(p.Slug)+1+nameRest > c.Host.NameMax {
		d.errorf(src.LabelRanges[0], "No room for names of tools",
			"With the prefix %q a name has no room in name_max = %d. Shorten the label, or raise name_max to %d.", p.Slug+"_", c.Host.NameMax, len(p.Slug)+1+nameRest)
	}
}

// signalTime is what the steps of a stop take after stop_grace: half a second
// from SIGTERM to SIGKILL, and as much for the proof that nothing is left.
const signalTime = time.Second

func (c *Config) checkGraceOf(d *decoder, p *Provider, src *hclsyntax.Block) {
	if p.Limits.StopGrace+signalTime > c.Host.StopBudget {
		d.diags = append(d.diags, caution(rangeIn(src, "limits", "stop_grace"), "stop_grace over stop_budget",
			fmt.Sprintf("When the host stops, everything has stop_budget = %s together, so this server gets less than its %s.",
				formatDuration(c.Host.StopBudget), formatDuration(p.Limits.StopGrace))))
	}
}

// SortDiagnostics puts diagnostics in the order of files and lines; those
// without a place come first.
func SortDiagnostics(diags hcl.Diagnostics) {
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		switch {
		case a.Subject == nil && b.Subject == nil:
			return 0
		case a.Subject == nil:
			return -1
		case b.Subject == nil:
			return 1
		}
		return cmp.Or(
			cmp.Compare(a.Subject.Filename, b.Subject.Filename),
			cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte),
			cmp.Compare(a.Summary, b.Summary),
		)
	})
}
