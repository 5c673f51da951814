package broker

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// Of adapts a session manager to what the broker needs.
func Of(m *session.Manager) Sessions { return managed{m} }

type managed struct{ *session.Manager }

func (m managed) Get(ctx context.Context, slug string) (Instance, error) {
	in, err := m.Manager.Get(ctx, slug)
	if err != nil {
		return nil, err // a nil *session.Instance must not become a non-nil Instance
	}
	return in, nil
}
