package artifact

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Scheme begins the URI of an artifact: drawbridge://artifacts/ID, and with a
// range drawbridge://artifacts/ID?offset=N&length=M, both in bytes.
const (
	Scheme = "drawbridge"
	host   = "artifacts"
)

// Why a part of an artifact cannot be read.
var (
	// ErrURI: it is no URI of an artifact.
	ErrURI = errors.New("not the URI of an artifact")
	// ErrRange: it is outside of the artifact.
	ErrRange = errors.New("range is outside of the artifact")
)

// Range is a part of an artifact, in bytes. A Length of 0 is the rest.
type Range struct{ Offset, Length int64 }

// URI is how clients name an artifact.
func (r Record) URI() string { return Scheme + "://" + host + "/" + r.ID }

// ParseURI reads the URI of an artifact or of a part of one. The error is ErrURI.
func ParseURI(uri string) (id string, part Range, err error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != Scheme || u.Host != host || u.User != nil || u.Fragment != "" {
		return "", Range{}, fmt.Errorf("%w: it begins with %s://%s/", ErrURI, Scheme, host)
	}
	id, ok := strings.CutPrefix(u.Path, "/")
	if !ok || !validID(id) {
		return "", Range{}, fmt.Errorf("%w: it has no id", ErrURI)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", Range{}, fmt.Errorf("%w: %w", ErrURI, err)
	}
	for name, values := range query {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 || len(values) != 1 {
			return "", Range{}, fmt.Errorf("%w: %s is a number of bytes, once", ErrURI, name)
		}
		switch name {
		case "offset":
			part.Offset = n
		case "length":
			if n == 0 {
				return "", Range{}, fmt.Errorf("%w: a length is at least 1", ErrURI)
			}
			part.Length = n
		default:
			return "", Range{}, fmt.Errorf("%w: %s means nothing; offset and length do", ErrURI, name)
		}
	}
	return id, part, nil
}

// Within bounds the part to an artifact of size bytes and to at most most bytes.
// The error is ErrRange for an offset past the end, which a reader at the very end
// of a nonempty artifact is told too, so that no loop reads nothing for ever.
func (p Range) Within(size, most int64) (Range, error) {
	if p.Offset > size || p.Offset == size && size > 0 {
		return Range{}, fmt.Errorf("%w: it has %d bytes, and offset is %d", ErrRange, size, p.Offset)
	}
	rest := size - p.Offset
	if p.Length == 0 || p.Length > rest {
		p.Length = rest
	}
	p.Length = min(p.Length, most)
	return p, nil
}

// WholeRunes cuts an incomplete character off the end of a part of a text, so that
// parts read one after the other are text each. What is left is never empty where
// p is not.
func WholeRunes(p []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut < len(p); cut++ {
		at := len(p) - cut
		if !utf8.RuneStart(p[at]) {
			continue
		}
		if !utf8.FullRune(p[at:]) {
			return p[:at]
		}
		break
	}
	return p
}
