package importer

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// guessed begins the name of a credential that has none, and is told by how it looks.
const guessed = "*"

// span is a credential in a text, and the name of what it is the value of.
type span struct {
	start, end int
	key        string
}

// words takes a name apart: GITHUB_TOKEN, X-Api-Key and apiKey have two or three.
func words(name string) []string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]) {
			b.WriteByte(' ')
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(unicode.ToLower(r))
		} else {
			b.WriteByte(' ')
		}
	}
	return strings.Fields(b.String())
}

var (
	// secretWords make any name that holds one that of a credential, secretEnds one
	// that ends with it.
	secretWords = []string{"password", "passwd", "pwd", "passphrase", "secret", "secrets", "apikey", "credential", "credentials", "bearer", "jwt", "cookie", "cookies"}
	secretEnds  = []string{"token", "key", "auth", "authorization", "pat", "pass", "accesskey", "privatekey", "authtoken", "accesstoken", "signature", "sig", "session", "sid"}
	// otherEnds make it the name of something about one.
	otherEnds = []string{"file", "path", "dir", "directory", "url", "uri", "endpoint", "id", "name", "type", "mode", "method", "enabled", "ttl", "expiry", "length", "limit", "count", "header", "headername", "version", "env", "var"}
	strong    = []string{"password", "passwd", "pwd", "passphrase", "secret"}
)

// secretKey says whether a name is that of a credential, and surely whether any value
// of it is one.
func secretKey(name string) (secret, surely bool) {
	w := words(name)
	if len(w) == 0 {
		return false, false
	}
	last := w[len(w)-1]
	if len(w) > 1 && last == "key" && slices.Contains([]string{"public", "primary", "foreign", "sort", "partition", "host"}, w[len(w)-2]) {
		return false, false
	}
	auth := last == "header" && slices.Contains(w, "auth")
	if slices.Contains(otherEnds, last) && !auth {
		return false, false
	}
	for _, word := range w {
		surely = surely || slices.Contains(strong, word)
		secret = secret || slices.Contains(secretWords, word)
	}
	return secret || auth || slices.Contains(secretEnds, last), surely
}

// plainValue is a value that is no credential whatever its name.
var plainValue = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|none|null|nil|auto|default|basic|bearer|oauth2?|enabled|disabled|[0-9]{1,5})$|^(\.{0,2}/|~/|[A-Za-z]:\\)`)

// plainFor says whether a value under a secret's name is none all the same.
func plainFor(value string, surely bool) bool {
	return value == "" || !surely && plainValue.MatchString(value) || strings.HasPrefix(value, "$") || placeholderValue(value)
}

// scheme is what stands before a credential in a header.
var scheme = regexp.MustCompile(`^(?i:bearer|basic|token|apikey|api-key|digest|key)\s+`)

// placeholder is a value that stands for one which the user is to fill in.
var placeholder = regexp.MustCompile(`^(?i:<[^<>]+>|\[[a-z _-]*(key|token|secret|password|here)[a-z _-]*\]|your[-_ ].*|.*[-_ ]here|my[-_ ](api[-_ ]?key|token|secret|password)|insert[-_ ].*|enter[-_ ].*|replace[-_ ].*|change[-_ ]?me|todo|x{3,}|\*{3,}|\.{3}|put[-_ ]your.*|example[-_ ](api[-_ ]?key|token|secret|password))$`)

func placeholderValue(s string) bool { return placeholder.MatchString(strings.TrimSpace(s)) }

// Patterns of credentials that stand anywhere in a text. The group is the credential,
// and that before it, where there is one, its name.
var (
	known = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9_-]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}` +
		`|xox[abeoprs]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|lin_api_[A-Za-z0-9]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}` +
		`|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|figd_[A-Za-z0-9_-]{16,}|ntn_[A-Za-z0-9]{16,}|dop_v1_[a-f0-9]{32,}` +
		`|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|shp(?:at|ss|ca)_[A-Fa-f0-9]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|tvly-[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}` +
		`|xai-[A-Za-z0-9_-]{20,}|r8_[A-Za-z0-9]{20,}|ATATT[A-Za-z0-9_=-]{20,}|ya29\.[A-Za-z0-9_-]{20,}|sntrys_[A-Za-z0-9_=+/-]{16,}|pplx-[A-Za-z0-9]{20,}|fc-[a-f0-9]{24,}` +
		`|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+)`)
	privateKey = regexp.MustCompile(`(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*))`)
	bearer     = regexp.MustCompile(`\b(?i:bearer)\s+([A-Za-z0-9._~+/=-]{6,})`)
	userinfo   = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*:([^/?#\s"']+)@`)
	// openPassword is one that a reference goes on with; digits there are a port.
	openPassword = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*:([^/?#\s"'@]+)$`)
	tokenUser    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://([^/?#\s:@]{16,})@`)
	query        = regexp.MustCompile(`[?&;]([A-Za-z0-9_.-]+)=([^&#;\s"']+)`)
	assignment   = regexp.MustCompile(`(?:^|[\s"';&|(,])-{0,2}([A-Za-z_][A-Za-z0-9_-]*)=("[^"]*"|'[^']*'|[^\s"';&|,]+)`)
	flagInText   = regexp.MustCompile(`(?:^|\s)--([A-Za-z][A-Za-z0-9-]*)\s+("[^"]*"|'[^']*'|[^\s"';&|-][^\s"';&|]*)`)
	headerText   = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|cookie|[a-z0-9-]*(?:api-?key|token|secret|auth))\s*:\s*((?:(?:bearer|basic|token|apikey)\s+)?)([^\s"',}]+)`)
	jsonText     = regexp.MustCompile(`"([A-Za-z0-9_-]+)"\s*:\s*"([^"\\]+)"`)
	random       = regexp.MustCompile(`^[A-Za-z0-9]{32,}$|^[A-Za-z0-9_-]{40,}$`)
)

// queryKeys are names of a query that mean a credential there.
var queryKeys = []string{"pat", "key", "sig", "code", "auth", "apikey", "access"}

// credentials finds literal credentials in a text that nothing else is known of. inURL
// names a password in a URL: the entry's own, or one among the arguments.
func credentials(s, inURL string) []span {
	var found []span
	add := func(start, end int, key string) {
		value := s[start:end]
		if len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0] {
			start, end = start+1, end-1
		}
		if start < end && !placeholderValue(s[start:end]) {
			found = append(found, span{start, end, key})
		}
	}
	for _, m := range known.FindAllStringSubmatchIndex(s, -1) {
		add(m[2], m[3], guessed+"token")
	}
	for _, m := range privateKey.FindAllStringSubmatchIndex(s, -1) {
		add(m[2], m[3], guessed+"private-key")
	}
	for _, m := range bearer.FindAllStringSubmatchIndex(s, -1) {
		add(m[2], m[3], guessed+"token")
	}
	for _, m := range userinfo.FindAllStringSubmatchIndex(s, -1) {
		add(m[2], m[3], inURL)
	}
	for _, m := range tokenUser.FindAllStringSubmatchIndex(s, -1) {
		add(m[2], m[3], inURL)
	}
	for _, m := range query.FindAllStringSubmatchIndex(s, -1) {
		key, value := s[m[2]:m[3]], s[m[4]:m[5]]
		secret, surely := secretKey(key)
		if (secret || slices.Contains(queryKeys, strings.ToLower(key))) && !plainFor(value, surely) {
			add(m[4], m[5], key)
		}
	}
	for _, pattern := range []*regexp.Regexp{assignment, flagInText, jsonText} {
		for _, m := range pattern.FindAllStringSubmatchIndex(s, -1) {
			if secret, surely := secretKey(s[m[2]:m[3]]); secret && !plainFor(strings.Trim(s[m[4]:m[5]], `"'`), surely) {
				start := m[4] + len(scheme.FindString(s[m[4]:m[5]]))
				add(start, m[5], s[m[2]:m[3]])
			}
		}
	}
	for _, m := range headerText.FindAllStringSubmatchIndex(s, -1) {
		if !plainFor(s[m[6]:m[7]], false) {
			add(m[6], m[7], s[m[2]:m[3]])
		}
	}
	if random.MatchString(s) && looksRandom(s) {
		add(0, len(s), guessed+"value")
	}
	return apart(found)
}

// looksRandom tells a key from a long name.
func looksRandom(s string) bool {
	digits, upper, lower := 0, 0, 0
	for _, r := range s {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsUpper(r):
			upper++
		case unicode.IsLower(r):
			lower++
		}
	}
	return digits >= 3 && (upper >= 3 && lower >= 3 || strings.Trim(strings.ToLower(s), "0123456789abcdef") == "")
}

// apart puts spans in order and drops what overlaps; what begins first, and of these
// what has a name of its own, stays.
func apart(found []span) []span {
	generic := func(s span) int {
		if strings.HasPrefix(s.key, guessed) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(found, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(generic(a), generic(b)), cmp.Compare(b.end, a.end))
	})
	out := found[:0]
	for _, s := range found {
		if len(out) == 0 || s.start >= out[len(out)-1].end {
			out = append(out, s)
		} else if last := &out[len(out)-1]; s.end > last.end {
			last.end = s.end
		}
	}
	return out
}
