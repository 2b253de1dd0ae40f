// SPDX-License-Identifier: Apache-2.0

package tlshello

// cursor reads big-endian fields from the front of a message. The first field
// that does not fit sets bad, after which every read returns zero values, so a
// parser may check once at the end of a group of reads.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) u8() uint8 {
	if v := c.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if v := c.take(2); v != nil {
		return uint16(v[0])<<8 | uint16(v[1])
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if v := c.take(4); v != nil {
		return uint32(v[0])<<24 | uint32(v[1])<<16 | uint32(v[2])<<8 | uint32(v[3])
	}
	return 0
}

// vec8 and vec16 read a vector with a length of 1 or 2 bytes in front.
func (c *cursor) vec8() []byte  { return c.take(int(c.u8())) }
func (c *cursor) vec16() []byte { return c.take(int(c.u16())) }

// done reports whether everything was read and nothing was short.
func (c *cursor) done() bool { return !c.bad && len(c.b) == 0 }

// u16s appends the 16-bit numbers of b to dst; ok is false for an odd length.
func u16s(dst []uint16, b []byte) (out []uint16, ok bool) {
	if len(b)%2 != 0 {
		return dst, false
	}
	for ; len(b) > 0; b = b[2:] {
		dst = append(dst, uint16(b[0])<<8|uint16(b[1]))
	}
	return dst, true
}
