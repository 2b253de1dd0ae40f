// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Config is what the author decides. The names are those of the XML elements.
type Config struct {
	values [numParameters]uint64
	given  [numParameters]bool
}

type parameter int

// The parameters, in the order of the table.
const (
	ProdID parameter = iota
	ISVSVN
	ProvisionKey
	LaunchKey
	DisableDebug
	HW
	TCSNum
	TCSMaxNum
	TCSMinPool
	TCSPolicy
	StackMaxSize
	StackMinSize
	HeapMaxSize
	HeapMinSize
	HeapInitSize
	MiscSelect
	MiscMask
	EnableKSS
	ISVFamilyIDHigh
	ISVFamilyIDLow
	ISVExtProdIDHigh
	ISVExtProdIDLow
	numParameters
)

const maxMemory = 1 << 35 // bytes of stack or heap

// parameters: name, smallest and largest value, default, and what it is.
var parameters = [numParameters]struct {
	name           string
	min, max, when uint64
	what           string
}{
	{"ProdID", 0, 0xffff, 0, "product number, in MRSIGNER's space"},
	{"ISVSVN", 0, 0xffff, 0, "security version"},
	{"ProvisionKey", 0, 1, 0, "1: may get the provisioning key"},
	{"LaunchKey", 0, 1, 0, "1: may get the launch key"},
	{"DisableDebug", 0, 1, 0, "1: can never run as a debug enclave"},
	{"HW", 0, 0x10, 0, "SIGSTRUCT.SWDEFINED"},
	{"TCSNum", 1, 4096, 1, "threads"},
	{"TCSMaxNum", 1, 4096, 1, "threads; the larger of both is there from the start"},
	{"TCSMinPool", 0, 4096, 1, "threads that are kept"},
	{"TCSPolicy", 0, 1, 1, "0: a thread of the application keeps its TCS; 1: any free one"},
	{"StackMaxSize", 0x2000, maxMemory, 0x40000, "stack of a thread, bytes"},
	{"StackMinSize", 0x2000, maxMemory, 0x2000, "read, and no larger than StackMaxSize"},
	{"HeapMaxSize", 0, maxMemory, 0x1000000, "heap, bytes"},
	{"HeapMinSize", 0, maxMemory, 0x1000, "read, and no larger than HeapMaxSize"},
	{"HeapInitSize", 0, maxMemory, 0x1000, "read, and no larger than HeapMaxSize"},
	{"MiscSelect", 0, 0xffffffff, 0, "1: page faults tell their address"},
	{"MiscMask", 0, 0xffffffff, 0xffffffff, "which of MiscSelect must be so"},
	{"EnableKSS", 0, 1, 0, "1: key separation and sharing"},
	{"ISVFAMILYID_H", 0, 1<<64 - 1, 0, "family, high half; needs EnableKSS"},
	{"ISVFAMILYID_L", 0, 1<<64 - 1, 0, "family, low half; needs EnableKSS"},
	{"ISVEXTPRODID_H", 0, 1<<64 - 1, 0, "extended product number, high half; needs EnableKSS"},
	{"ISVEXTPRODID_L", 0, 1<<64 - 1, 0, "extended product number, low half; needs EnableKSS"},
}

// ignored are elements of Intel's tool that only say 0 here.
var ignored = map[string]bool{"ReleaseType": true, "IntelSigned": true, "ReservedMemMaxSize": true, "ReservedMemMinSize": true, "ReservedMemInitSize": true, "ReservedMemExecutable": true,
	"PKRU": true, "AMX": true, "UserRegionSize": true, "EnableAEXNotify": true, "EnableIPPFIPS": true, "EnableOSSLFIPS": true}

// Default is the configuration without a file.
func Default() *Config {
	c := &Config{}
	for i, p := range parameters {
		c.values[i] = p.when
	}
	return c
}

// Get returns the value of a parameter.
func (c *Config) Get(p parameter) uint64 { return c.values[p] }

const root = "EnclaveConfiguration"

// ParseConfig reads an EnclaveConfiguration in XML. Unknown and repeated elements,
// attributes and values out of range are errors, and then the Config is nil.
func ParseConfig(r io.Reader) (*Config, error) {
	d := xml.NewDecoder(io.LimitReader(r, 1<<20))
	c := Default()
	bad := func(format string, a ...any) error {
		line, col := d.InputPos()
		return fmt.Errorf("enclave configuration, line %d column %d: %s", line, col, fmt.Sprintf(format, a...))
	}
	depth, name, text, done := 0, "", "", false
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, bad("%v", err)
		}
		switch t := tok.(type) {
		case xml.StartElement:
			switch {
			case len(t.Attr) > 0 || t.Name.Space != "":
				return nil, bad("<%s> has attributes", t.Name.Local)
			case depth == 0 && (t.Name.Local != root || done):
				return nil, bad("expected one <%s>, got <%s>", root, t.Name.Local)
			case depth == 2:
				return nil, bad("<%s> within <%s>", t.Name.Local, name)
			}
			name, text = t.Name.Local, ""
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				done = true
			} else if err := c.set(name, strings.TrimSpace(text)); err != nil {
				return nil, bad("%v", err)
			}
			text = ""
		case xml.CharData:
			if depth == 2 {
				text += string(t)
			} else if strings.TrimSpace(string(t)) != "" {
				return nil, bad("text %q outside of an element", strings.TrimSpace(string(t)))
			}
		}
	}
	if !done {
		return nil, bad("expected <%s>", root)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) set(name, text string) error {
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil || strings.Contains(text, "_") {
		return fmt.Errorf("<%s>: expected a number, decimal or with 0x, got %q", name, text)
	}
	for i, p := range parameters {
		if p.name != name {
			continue
		}
		if c.given[i] {
			return fmt.Errorf("<%s> stands here twice", name)
		}
		if v < p.min || v > p.max {
			return fmt.Errorf("<%s>: %#x is not between %#x and %#x", name, v, p.min, p.max)
		}
		c.values[i], c.given[i] = v, true
		return nil
	}
	if ignored[name] {
		if v != 0 {
			return fmt.Errorf("<%s>: only 0 is supported here, got %s", name, text)
		}
		return nil
	}
	var names []string
	for _, p := range parameters {
		names = append(names, p.name)
	}
	return fmt.Errorf("<%s> is no parameter; expected one of %s", name, strings.Join(names, ", "))
}

// check looks at what the values mean together.
func (c *Config) check() error {
	for _, p := range []parameter{StackMaxSize, StackMinSize, HeapMaxSize, HeapMinSize, HeapInitSize} {
		if c.Get(p)%4096 != 0 {
			return fmt.Errorf("enclave configuration: %s: %#x is no multiple of 0x1000", parameters[p].name, c.Get(p))
		}
	}
	for _, o := range [...][2]parameter{{StackMinSize, StackMaxSize}, {HeapMinSize, HeapMaxSize}, {HeapInitSize, HeapMaxSize}} {
		if c.given[o[0]] && c.Get(o[0]) > c.Get(o[1]) {
			return fmt.Errorf("enclave configuration: %s, %#x, is larger than %s, %#x", parameters[o[0]].name, c.Get(o[0]), parameters[o[1]].name, c.Get(o[1]))
		}
	}
	if c.given[TCSMaxNum] && c.Get(TCSMaxNum) < c.Get(TCSNum) {
		return fmt.Errorf("enclave configuration: TCSMaxNum, %d, is smaller than TCSNum, %d", c.Get(TCSMaxNum), c.Get(TCSNum))
	}
	if c.Get(EnableKSS) == 0 && c.Get(ISVFamilyIDHigh)|c.Get(ISVFamilyIDLow)|c.Get(ISVExtProdIDHigh)|c.Get(ISVExtProdIDLow) != 0 {
		return errors.New("enclave configuration: ISVFAMILYID and ISVEXTPRODID need EnableKSS 1")
	}
	return nil
}

// threads is how many there are.
func (c *Config) threads() int {
	if c.given[TCSMaxNum] {
		return int(c.Get(TCSMaxNum))
	}
	return int(c.Get(TCSNum))
}

// String is the configuration in XML, with all values and what they mean; it reads
// back to the same values.
func (c *Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<%s>\n", root)
	for i, p := range parameters {
		if (parameter(i) == TCSMaxNum || parameter(i) == HeapInitSize || parameter(i) == HeapMinSize || parameter(i) == StackMinSize || parameter(i) == TCSMinPool) && !c.given[i] {
			continue // what is not said follows the others
		}
		v := strconv.FormatUint(c.values[i], 10)
		if c.values[i] > 4096 {
			v = fmt.Sprintf("%#x", c.values[i])
		}
		fmt.Fprintf(&b, "  <%s>%s</%s> <!-- %s -->\n", p.name, v, p.name, p.what)
	}
	fmt.Fprintf(&b, "</%s>\n", root)
	return b.String()
}
