package shape

import (
	"strconv"
	"strings"
)

const (
	// maxLiteral is the longest literal of a number that is looked into.
	maxLiteral = 64
	// maxDigits and maxExponent bound the numbers that are told apart. Readers take
	// numbers for floating point of 64 bits: two that have at most 15 digits stay two,
	// others may become one.
	maxDigits   = 15
	maxExponent = 290
)

// decimal is a number as sign, digits and power of ten. The digits begin and end with
// one that is not 0; the number 0 has none.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// readDecimal reads the literal of a number; false for one that is out of bounds.
func readDecimal(literal string) (decimal, bool) {
	if len(literal) > maxLiteral {
		return decimal{}, false
	}
	var d decimal
	literal, d.negative = strings.CutPrefix(literal, "-")
	mantissa := literal
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa = literal[:i]
		e, err := strconv.Atoi(literal[i+1:])
		if err != nil || e > 10*maxExponent || e < -10*maxExponent {
			return decimal{}, false
		}
		d.exponent = e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.digits = strings.TrimLeft(whole+fraction, "0")
	d.exponent -= len(fraction)
	trimmed := strings.TrimRight(d.digits, "0")
	d.exponent += len(d.digits) - len(trimmed)
	if d.digits = trimmed; d.digits == "" {
		return decimal{}, true
	}
	magnitude := d.exponent + len(d.digits)
	return d, len(d.digits) <= maxDigits && magnitude <= maxExponent && magnitude >= -maxExponent
}

// compare is below 0 where d is smaller than e, above where it is larger.
func (d decimal) compare(e decimal) int {
	switch a, b := d.sign(), e.sign(); {
	case a != b:
		return a - b
	case a < 0:
		return e.magnitude(d)
	}
	return d.magnitude(e)
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// magnitude is compare of the numbers without their signs, of which both are 0 or
// neither is.
func (d decimal) magnitude(e decimal) int {
	if a, b := d.exponent+len(d.digits), e.exponent+len(e.digits); a != b {
		return a - b
	}
	return strings.Compare(d.digits, e.digits)
}

// integer says whether a number has no fraction.
func integer(literal string) verdict {
	if !strings.ContainsAny(literal, ".eE") {
		return yes
	}
	d, ok := readDecimal(literal)
	switch {
	case !ok:
		return maybe
	case d.exponent >= 0:
		return yes
	}
	return no
}

// count reads what a keyword like maxItems says; false for what is no plain number.
func count(n *node) (int, bool) {
	if n.kind != '0' || len(n.text) > maxDigits {
		return 0, false
	}
	c, err := strconv.Atoi(n.text)
	return c, err == nil && c >= 0
}
