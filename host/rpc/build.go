package rpc

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// appendQuoted appends s as a JSON string; what is not UTF-8 in it becomes U+FFFD.
func appendQuoted[T ~string | ~[]byte](dst []byte, s T) []byte {
	quoted, err := jsontext.AppendQuote(dst, s)
	if err == nil {
		return quoted
	}
	fixed, _ := jsontext.AppendQuote(dst, []byte(string([]rune(string(s)))))
	return fixed
}

// AppendQuoted is Quote for what is long: it appends to dst.
func AppendQuoted(dst, s []byte) []byte { return appendQuoted(dst, s) }

// literal is the id as it stands in a message.
func (id ID) literal() string {
	if id == "" {
		return "null"
	}
	return string(id)
}

// Number is an id of our own, as every request that goes up has it.
func Number(n int64) ID { return ID(strconv.FormatInt(n, 10)) }

func begin(size int) []byte { return append(make([]byte, 0, size+64), `{"jsonrpc":"2.0"`...) }

// NewRequest makes a request of our own; params is valid JSON, nil means none.
func NewRequest(id ID, method string, params json.RawMessage) Payload {
	b := append(begin(len(id)+len(method)+len(params)), `,"id":`...)
	b = append(b, id.literal()...)
	return withMethod(b, method, params)
}

// NewNotification makes a notification; params is valid JSON, nil means none.
func NewNotification(method string, params json.RawMessage) Payload {
	return withMethod(begin(len(method)+len(params)), method, params)
}

func withMethod(b []byte, method string, params json.RawMessage) Payload {
	b = appendQuoted(append(b, `,"method":`...), method)
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return Bytes(append(b, '}'))
}

// NewResult makes a response with a result, which is valid JSON; nil means {}.
func NewResult(id ID, result json.RawMessage) Payload {
	if result == nil {
		result = json.RawMessage("{}")
	}
	b := append(begin(len(id)+len(result)), `,"id":`...)
	b = append(append(b, id.literal()...), `,"result":`...)
	return Bytes(append(append(b, result...), '}'))
}

// Quote returns s as a JSON string; what is not UTF-8 in it becomes U+FFFD.
func Quote(s string) json.RawMessage { return appendQuoted(nil, s) }

// NewFailure makes a response with an error; an empty id becomes null. The id is
// the one given, not the error's.
func NewFailure(id ID, err *Error) Payload {
	b := append(begin(len(id)+len(err.Message)+len(err.Data)+32), `,"id":`...)
	b = append(append(b, id.literal()...), `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(err.Code), 10)
	b = appendQuoted(append(b, `,"message":`...), err.Message)
	if len(err.Data) > 0 {
		b = append(append(b, `,"data":`...), err.Data...)
	}
	return Bytes(append(b, `}}`...))
}
