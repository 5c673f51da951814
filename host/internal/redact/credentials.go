package redact

import (
	"regexp"
	"strings"
)

// Where credentials stand whatever their value is. Quotes and colons may be
// escaped, for a header is mostly seen inside of something else.
var (
	// A header that carries one, as HTTP, JSON, Go, curl or a logger writes it. Of a
	// scheme that is known its name stays; what the others have is not known, so all
	// of the line goes that can be a part of it.
	inHeader = regexp.MustCompile(`(?i)((?:authorization|x-api-key|api-key|set-cookie|cookie)\\*["']?\s*[:=]\s*)` +
		`(?:\[redacted\]|(\[?\\*["']?)(?:((?:bearer|basic|token|apikey|negotiate)\s+)(?:\[redacted\]|[^\s"'\\\],;}]+)` +
		`|(?:digest|aws4-hmac-sha256|hmac|signature)\s[^\r\n]*|[^\s"'\\\],;}]+))`)
	// A token after its scheme alone. That it has a digit tells it from English.
	afterBearer = regexp.MustCompile(`(?i)(\bbearer\s+)([A-Za-z0-9._~+/=-]*[0-9][A-Za-z0-9._~+/=-]*)`)
	// user:password@ in a URL, and user@ where a web server takes it for a token.
	password = regexp.MustCompile(`(:\\?/\\?/[^\s/?#"'<>\\@:]*:)[^\s/?#"'<>\\]+@`)
	userOnly = regexp.MustCompile(`(?i)(https?:\\?/\\?/)[^\s/?#"'<>\\@:]+@`)
	// A parameter of a URL whose name says what it is.
	parameter = regexp.MustCompile(`(?i)([?&](?:[a-z]+[_-])?(?:token|api_?-?key|key|secret|password|passwd|pwd|sig|signature|auth|credential)=)(?:\[redacted\]|[^&\s"'<>#\\)\]]+)`)
)

// withoutCredentials takes out what stands where credentials do.
func withoutCredentials(s string) string {
	// Each step costs more than a look for what it cannot do without.
	if strings.IndexByte(s, '@') >= 0 && (strings.Contains(s, "//") || strings.Contains(s, `/\/`)) {
		s = password.ReplaceAllString(s, "${1}"+Mark+"@")
		s = userOnly.ReplaceAllString(s, "${1}"+Mark+"@")
	}
	if strings.ContainsAny(s, "?&") && strings.IndexByte(s, '=') >= 0 {
		s = parameter.ReplaceAllString(s, "${1}"+Mark)
	}
	if containsFold(s, "bearer") {
		s = afterBearer.ReplaceAllString(s, "${1}"+Mark)
	}
	if containsFold(s, "authorization") || containsFold(s, "api-key") || containsFold(s, "cookie") {
		s = inHeader.ReplaceAllString(s, "${1}${2}${3}"+Mark)
	}
	return s
}

// containsFold says whether a word in lower case stands in s, in any case.
func containsFold(s, word string) bool {
	first, upper := word[0], word[0]-'a'+'A'
	for i := 0; i+len(word) <= len(s); i++ {
		if (s[i] == first || s[i] == upper) && strings.EqualFold(s[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
