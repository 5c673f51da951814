package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// MaxSlug is the most characters a slug may have.
const MaxSlug = 32

var errSlug = fmt.Errorf("must hold a letter or digit of ASCII, and give a name of 1 to %d characters", MaxSlug)

// Slug is the name that stands for a label in files, sockets, marks and tools:
// lower case, every run of characters outside [a-z0-9] becomes one "-", trimmed
// at both ends. It is an error if that leaves nothing or more than MaxSlug
// characters.
func Slug(label string) (string, error) {
	var slug strings.Builder
	for _, r := range label {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		default:
			r = '-'
		}
		if r != '-' || slug.Len() > 0 && !strings.HasSuffix(slug.String(), "-") {
			slug.WriteRune(r)
		}
	}
	s := strings.TrimRight(slug.String(), "-")
	if s == "" || len(s) > MaxSlug {
		return "", errSlug
	}
	return s, nil
}

const day = 24 * time.Hour

// maxDays keeps a duration far below what an int64 of nanoseconds can hold.
const maxDays = 36500

// ParseDuration reads a duration as files have it: "90d", "1h30m", "250ms".
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// parseDuration reads "90d", "1h30m", "250ms": Go's notation with days before it.
func parseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New(`must not be empty; write it like "30s", "1h30m" or "90d"`)
	}
	if isNumber(s) {
		return 0, fmt.Errorf(`needs a unit, such as "%ss"`, s)
	}
	var total time.Duration
	rest := s
	if days, after, ok := strings.Cut(s, "d"); ok && isDigits(days) {
		n, err := strconv.Atoi(days)
		if err != nil || n > maxDays {
			return 0, fmt.Errorf("must be at most %dd", maxDays)
		}
		total, rest = time.Duration(n)*day, after
	}
	if rest == "" {
		return total, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || isNumber(rest) {
		return 0, errors.New(`must be a duration like "250ms", "30s", "1h30m" or "90d"; the units are ms, s, m, h and d`)
	}
	if part < 0 || strings.HasPrefix(rest, "-") {
		return 0, errors.New("must not be negative")
	}
	if part > maxDays*day {
		return 0, fmt.Errorf("must be at most %dd", maxDays)
	}
	return total + part, nil
}

// sizeUnits are the units of sizes: those of the IEC are powers of 1024, those
// of the SI powers of 1000.
var sizeUnits = map[string]int64{
	"B":  1,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

const sizeUnitNames = "B, KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000)"

// maxSize keeps sizes far below the end of int64.
const maxSize = 1 << 50

// parseSize reads "512KiB" or "1GB", in bytes.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(digits):]
	if !isDigits(digits) {
		return 0, fmt.Errorf(`must be a whole number with a unit, like "512KiB"; the units are %s`, sizeUnitNames)
	}
	if unit == "" {
		return 0, fmt.Errorf(`needs a unit, such as "%sMiB"`, s)
	}
	factor, ok := sizeUnits[unit]
	if !ok {
		return 0, fmt.Errorf("has an unknown unit; the units are %s", sizeUnitNames)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxSize/factor {
		return 0, errors.New("is too large")
	}
	return n * factor, nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isNumber(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	return isDigits(whole + fraction)
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// checkGlob takes the names of tools, resources, prompts and methods, in which
// "*" stands for any run of characters. Every other character that stands for
// something in other notations is refused: in `except` a pattern that silently
// matches nothing would leave a gate open.
func checkGlob(s string) error {
	if strings.HasPrefix(s, "!") {
		return errors.New("must not begin with !; name what is to be left out in `except`")
	}
	return checkPattern(s, "?[]{}\\", `? [ ] { } \`)
}

// checkURIGlob is checkGlob for URIs, in which ? and brackets stand for
// themselves.
func checkURIGlob(s string) error { return checkPattern(s, "{}\\", `{ } \`) }

func checkPattern(s, not, inWords string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case strings.TrimSpace(s) != s:
		return errors.New("must not begin or end with white space")
	case strings.ContainsAny(s, not):
		return fmt.Errorf("must not hold any of %s; the one wildcard is *, for any run of characters", inWords)
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("must not hold control characters")
	}
	return nil
}

// Match says whether name matches a pattern in which "*" stands for any run of
// characters, none included, and every other character for itself.
func Match(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for {
		// What stands between two stars may match as early as it can: what is
		// skipped later, the next star takes.
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}

var hexDigest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func checkSHA256(s string) error {
	if !hexDigest.MatchString(s) {
		return errors.New("must be the 64 hexadecimal digits of a SHA-256")
	}
	return nil
}

// checkListen takes host:port; port 0 lets the system choose.
func checkListen(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New(`must be an address and a port, like "127.0.0.1:7420"`)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("must end with a port from 0 to 65535")
	}
	return nil
}

// isLoopback says whether only this machine can reach the address to listen on.
// A name other than localhost may stand for any address.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkHost takes what may stand in a Host header: a name or an address, with or
// without a port. There is no wildcard: the check is what stops DNS rebinding.
func checkHost(s string) error {
	name := s
	if host, port, err := net.SplitHostPort(s); err == nil {
		if !isDigits(port) {
			return errors.New("must have a number for a port")
		}
		name = host
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.Contains(name, "*") {
		return errors.New("must be the name of one host; wildcards are not allowed")
	}
	if name == "" || strings.ContainsAny(name, "/@?# \t") || strings.Contains(name, ":") && net.ParseIP(name) == nil {
		return errors.New(`must be the name of a host, like "bridge.example.com" or "bridge.example.com:8443"`)
	}
	return nil
}

// checkOrigin takes what may stand in an Origin header.
func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || strings.Contains(s, "*") || u.Scheme+"://"+u.Host != s {
		return errors.New(`must be one origin, like "https://app.example.com"; wildcards are not allowed`)
	}
	return nil
}

// checkURL takes an absolute URL of a scheme, a host and a path, at which nobody on the
// way can answer in place of the host: over https, or on this machine.
func checkURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New(`must be a URL, like "https://bridge.example.com"`)
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && !local {
		return nil, errors.New("must begin with https://, for tokens and keys pass there; http:// is for this machine alone")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("must have nothing but a scheme, a host and a path")
	}
	return u, nil
}

// checkPublicURL takes the URL of what stands at the root of the host.
func checkPublicURL(s string) error {
	u, err := checkURL(s)
	if err == nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/mcp") {
		return errors.New("must not end with /mcp: that, and /mcp/PROJECT, stand below it")
	}
	return err
}

// checkIssuer takes the name of an OpenID Connect issuer, below which its keys are found.
func checkIssuer(s string) error {
	_, err := checkURL(s)
	return err
}

// sha256OfNothing is what sha256sum prints for an empty input, which is what a
// variable that is not set gives it. It would let in whoever has no token.
const sha256OfNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func checkTokenSHA256(s string) error {
	if strings.EqualFold(s, sha256OfNothing) {
		return errors.New("must not be the SHA-256 of an empty token")
	}
	return checkSHA256(s)
}

// parseTime takes a moment in RFC 3339's notation.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, errors.New(`must be a time like "2027-01-31T00:00:00Z"`)
	}
	return t, nil
}

func checkRate(s string) error {
	_, _, err := ParseRate(s)
	return err
}

// ParseRate reads a number of calls in a span of time: "60/1m".
func ParseRate(s string) (calls int, per time.Duration, err error) {
	count, span, ok := strings.Cut(s, "/")
	calls, err = strconv.Atoi(count)
	if !ok || err != nil || calls < 1 {
		return 0, 0, errors.New(`must be a number of calls in a span of time, like "60/1m"`)
	}
	if per, err = parseDuration(span); err != nil || per <= 0 {
		return 0, 0, errors.New(`must end with a span of time, like "60/1m"`)
	}
	return calls, per, nil
}

// formatDuration writes a duration as parseDuration reads it.
func formatDuration(d time.Duration) string {
	days := d / day
	rest := (d % day).String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	switch {
	case days == 0:
		return rest
	case d%day == 0:
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, rest)
}

// formatSize writes a size in the largest binary unit that holds it whole.
func formatSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d%s", n, units[i])
}
