package supervise

import (
	"context"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// description is what a plugin said of itself, asked once per executable.
type description struct {
	// asking is held by who asks, and by who reads the answer.
	asking chan struct{}
	known  bool
	is     provider.Description
}

// Describe starts the plugin of spec, asks who it is, and stops it. The answer is
// kept for as long as the launcher lives: by name and checksum it cannot change.
// Errors are *Failure.
func (l *Launcher) Describe(ctx context.Context, spec Spec) (provider.Description, error) {
	value, _ := l.describe.LoadOrStore(spec.Exec.key(), &description{asking: make(chan struct{}, 1)})
	d, ok := value.(*description)
	if !ok {
		return provider.Description{}, spec.failure(PhasePlugin, "no description")
	}
	// Whoever asks meanwhile waits for this start, as long as they like.
	select {
	case d.asking <- struct{}{}:
		defer func() { <-d.asking }()
	case <-ctx.Done():
		return provider.Description{}, spec.failure(PhasePlugin, "another start of the plugin, to ask who it is, took too long")
	}
	if d.known {
		return d.is, nil
	}
	err := l.ask(ctx, spec, PhasePlugin, func(r provider.Remote) (err error) {
		d.is, err = r.Describe(ctx)
		return err
	})
	if err != nil {
		return provider.Description{}, err
	}
	d.known = true
	return d.is, nil
}

// key is the same for what runs the same.
func (e Exec) key() string { return fmt.Sprintf("%#v", e) }

// Validate starts the plugin of spec, lets it check the config, and stops it. The
// error is a *Failure: the plugin could not be asked.
func (l *Launcher) Validate(ctx context.Context, spec Spec) (found provider.Diagnostics, err error) {
	err = l.ask(ctx, spec, PhaseConfig, func(r provider.Remote) (err error) {
		found, err = r.Validate(ctx, spec.Config)
		return err
	})
	return found, err
}

// ask runs a plugin for one question. There is no server that would need grace.
func (l *Launcher) ask(ctx context.Context, spec Spec, phase Phase, question func(provider.Remote) error) error {
	p, err := l.Launch(ctx, spec)
	if err != nil {
		return err
	}
	defer p.Stop(ctx, 0)
	if err := question(p.Remote()); err != nil {
		return spec.failure(phase, err.Error())
	}
	return nil
}
