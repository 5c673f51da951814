package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

const (
	// maxID and maxMethod bound an id and a method in bytes: both are short names
	// in every client there is, and both are kept and logged.
	maxID     = 1 << 10
	maxMethod = 1 << 10
	// maxMembers bounds the members that are recorded of a client's message; a
	// server's result may be a map of its own.
	maxMembers       = 4096
	maxMembersServer = 1 << 16
	maxNameServer    = 64 << 10
)

// scanOptions are those of every scan of a message from origin.
func scanOptions(origin Origin) jsonscan.Options {
	opts := jsonscan.Options{
		Into: recorded,
		// The id is all that is left of a message that is refused.
		Capture:    func(depth int, name string) bool { return depth == 1 && name == "id" },
		MaxCapture: maxID,
		OmitBreaks: true,
		MaxMembers: maxMembers,
	}
	if origin == FromServer {
		opts.MaxMembers, opts.MaxName = maxMembersServer, maxNameServer
	}
	return opts
}

// recorded says whose members a Message knows.
func recorded(depth int, name string) bool {
	switch depth {
	case 1:
		return name == "params" || name == "result" || name == "error"
	case 2:
		return name == "_meta"
	}
	return false
}

// scanners holds used scanners by origin.
var scanners = [...]*sync.Pool{
	FromClient: {New: func() any { return jsonscan.New(scanOptions(FromClient)) }},
	FromServer: {New: func() any { return jsonscan.New(scanOptions(FromServer)) }},
}

func getScanner(origin Origin) *jsonscan.Scanner {
	s, _ := scanners[origin].Get().(*jsonscan.Scanner)
	s.Reset()
	return s
}

// Parse parses one whole message held in memory. White space outside strings
// that is CR or LF is removed, and nothing else changes. The error is an *Error
// with CodeParse or CodeInvalidRequest. The message keeps text, which is not to
// be changed from then on.
func Parse(origin Origin, text []byte) (*Message, error) {
	s := getScanner(origin)
	defer scanners[origin].Put(s)
	err := s.Feed(text)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		e := scanError(err)
		if e.Code == CodeInvalidRequest {
			e.ID, e.Response = glimpse(origin, s)
		}
		return nil, e
	}
	if s.Breaks() {
		text = appendUnbroken(make([]byte, 0, len(text)), text)
	}
	return classify(origin, s, memory(text))
}

// appendUnbroken appends text without CR and LF. In valid JSON they stand only
// outside strings.
func appendUnbroken(dst, text []byte) []byte {
	for len(text) > 0 {
		var run []byte
		run, text = cutBreak(text)
		dst = append(dst, run...)
	}
	return dst
}

// cutBreak splits text at its first CR or LF, which is in neither part.
func cutBreak(text []byte) (before, after []byte) {
	i := bytes.IndexAny(text, "\r\n")
	if i < 0 {
		return text, nil
	}
	return text[:i], text[i+1:]
}

// hasBreaks says whether b holds a CR or LF.
func hasBreaks(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// scanError makes the answer to a text that is not valid JSON, or over a bound
// of the scan. Only under the latter an id that was read is worth something.
func scanError(err error) *Error {
	var limit *jsonscan.LimitError
	if !errors.As(err, &limit) {
		return &Error{Code: CodeParse, Message: "parse error: " + err.Error(), cause: err}
	}
	e := invalid(limit.Error())
	e.cause = err
	return e
}

// spoolError is what a spool file that cannot be written or read makes of a message.
func spoolError(err error) *Error {
	return &Error{
		Code:    CodeInternal,
		Message: "internal error: " + ErrSpool.Error(),
		cause:   fmt.Errorf("%w: %w", ErrSpool, err),
	}
}

// glimpse reads id and direction of a message that is refused for something
// else, as far as it was scanned. An id that occurs twice is none.
func glimpse(origin Origin, s *jsonscan.Scanner) (id ID, response bool) {
	seen, answer, method := 0, false, false
	for _, m := range s.Members() {
		if m.Depth != 1 {
			continue
		}
		switch m.Name {
		case "id":
			seen++
			if m.Captured != nil {
				id, _ = literalID(origin, m.Captured, m.Kind)
			}
		case "method":
			method = true
		case "result", "error":
			answer = true
		}
	}
	if seen != 1 {
		id = ""
	}
	return id, answer && !method
}

// envelope is the top level of a message, as members; nil where there is none.
type envelope struct {
	version, id, method, params, result, failure *member
}

// classify makes the message of a text that was scanned whole.
func classify(origin Origin, s *jsonscan.Scanner, b body) (*Message, error) {
	switch s.Root() {
	case '{':
	case '[':
		return nil, invalid("batching is not part of MCP since 2025-06-18")
	default:
		return nil, invalid("a message is a JSON object")
	}
	m := &Message{body: b, members: membersOf(s)}
	if err := m.check(origin); err != nil {
		err.ID, err.Response = glimpse(origin, s)
		return nil, err
	}
	return m, nil
}

func membersOf(s *jsonscan.Scanner) []member {
	from := s.Members()
	to := make([]member, len(from))
	for i := range from {
		f := &from[i]
		to[i] = member{
			name: f.Name, nameAt: f.NameAt, value: f.Value,
			parent: int32(f.Parent), // bounded by MaxMembers
			kind:   f.Kind,
			open:   f.Kind == '{' && recorded(f.Depth, f.Name),
		}
	}
	return to
}

// check decides whether the members make a message, and which.
func (m *Message) check(origin Origin) *Error {
	if err := m.strict(origin); err != nil {
		return err
	}
	var e envelope
	for i := range m.members {
		c := &m.members[i]
		if c.parent != root {
			continue
		}
		switch c.name {
		case "jsonrpc":
			e.version = c
		case "id":
			e.id = c
		case "method":
			e.method = c
		case "params":
			e.params = c
		case "result":
			e.result = c
		case "error":
			e.failure = c
		}
	}
	if !m.isString(e.version, "2.0") {
		return invalid(`"jsonrpc" must be "2.0"`)
	}
	if e.method != nil {
		return m.checkRequest(origin, e)
	}
	return m.checkResponse(origin, e)
}

// isString says whether c is the string want, escaped or not.
func (m *Message) isString(c *member, want string) bool {
	if c == nil || c.kind != '"' || c.value.Len() > int64(6*len(want)+2) {
		return false
	}
	b, err := m.body.read(c.value)
	return err == nil && (string(b[1:len(b)-1]) == want || unquote(b) == want)
}

func (m *Message) checkRequest(origin Origin, e envelope) *Error {
	if e.id != nil {
		id, err := m.readID(origin, e.id)
		if err != nil {
			return err
		}
		m.ID = id
	}
	switch {
	case e.method.kind != '"':
		return invalid(`"method" must be a string`)
	case e.method.value.Len() > maxMethod:
		return invalid(`"method" is too long`)
	case e.result != nil || e.failure != nil:
		return invalid(`"method" beside "result" or "error"`)
	}
	name, err := m.body.read(e.method.value)
	if err != nil {
		return spoolError(err)
	}
	m.Method = methodName(name)
	m.Kind = Notification
	if e.id != nil {
		m.Kind = Request
	}
	if p := e.params; p != nil && p.kind != '{' && (origin == FromClient || p.kind != 'n') {
		return invalid(`"params" must be an object`)
	}
	if origin == FromClient {
		if meta := m.find(pathParamsMeta); meta != nil && meta.kind != '{' {
			return invalid(`"_meta" in "params" must be an object`)
		}
	}
	return nil
}

var (
	pathParamsMeta   = []string{"params", "_meta"}
	pathErrorCode    = []string{"error", "code"}
	pathErrorMessage = []string{"error", "message"}
)

func (m *Message) checkResponse(origin Origin, e envelope) *Error {
	switch {
	case e.result == nil && e.failure == nil:
		return invalid(`"method" is missing`)
	case e.result != nil && e.failure != nil:
		return invalid(`both "result" and "error"`)
	}
	m.Kind = Failure
	if e.result != nil {
		m.Kind = Result
	}
	// Since 2025-11-25 an error need not have an id; JSON-RPC has null there.
	if e.id == nil || e.id.kind == 'n' {
		if m.Kind == Result {
			return invalid(`a result needs an "id"`)
		}
	} else {
		id, err := m.readID(origin, e.id)
		if err != nil {
			return err
		}
		if e.id.kind == '0' && !isDigits(string(id)) {
			// A server without integers of its own gives our 7 back as 7.0.
			id = ID(integer(string(id)))
		}
		m.ID = id
	}
	if m.Kind == Result {
		if e.result.kind != '{' {
			return invalid(`"result" must be an object`)
		}
		return nil
	}
	if e.failure.kind != '{' {
		return invalid(`"error" must be an object`)
	}
	if origin == FromServer {
		// However odd the error, it says that the call is over; a call that never
		// ended would be worse.
		return nil
	}
	code, text := m.find(pathErrorCode), m.find(pathErrorMessage)
	if code == nil || code.kind != '0' || code.value.Len() > 20 || !m.isInteger(code) {
		return invalid(`"code" in "error" must be an integer`)
	}
	if text == nil || text.kind != '"' {
		return invalid(`"message" in "error" must be a string`)
	}
	return nil
}

func (m *Message) isInteger(c *member) bool {
	b, err := m.body.read(c.value)
	return err == nil && isDigits(string(b))
}

func (m *Message) readID(origin Origin, c *member) (ID, *Error) {
	if c.value.Len() > maxID {
		return "", invalid(`"id" is too long`)
	}
	lit, err := m.body.read(c.value)
	if err != nil {
		return "", spoolError(err)
	}
	return literalID(origin, lit, c.kind)
}

// literalID takes an id: a string, or a number whose value is an integer. From a
// client it must be written as one, digits alone; from a server 7.0 and 1e2 pass
// as well. A fraction such as 1.5 and a number beyond any integer, such as 1e400,
// are never an id.
func literalID(origin Origin, lit []byte, kind byte) (ID, *Error) {
	switch {
	case kind == '"':
	case kind == '0' && isDigits(string(lit)):
	case kind == '0' && origin == FromServer && integer(string(lit)) != "":
	default:
		return "", invalid(`"id" must be a string or an integer`)
	}
	return ID(lit), nil
}

// isDigits says whether a JSON number has neither fraction nor exponent.
func isDigits(number string) bool { return !strings.ContainsAny(number, ".eE") }

// integer returns the digits of a JSON number with fraction or exponent whose
// value is an integer that a double holds exactly; else "".
func integer(number string) string {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -1<<53 {
		return ""
	}
	return strconv.FormatInt(int64(f), 10)
}

// methodName returns the method of a quoted name, without making a string for
// those that come with every call.
func methodName(quoted []byte) string {
	switch string(quoted) {
	case `"tools/call"`:
		return "tools/call"
	case `"tools/list"`:
		return "tools/list"
	case `"ping"`:
		return "ping"
	case `"resources/read"`:
		return "resources/read"
	case `"prompts/get"`:
		return "prompts/get"
	case `"notifications/progress"`:
		return "notifications/progress"
	case `"notifications/message"`:
		return "notifications/message"
	case `"notifications/cancelled"`:
		return "notifications/cancelled"
	}
	return unquote(quoted)
}
