// SPDX-License-Identifier: Apache-2.0

package monitor

import "holdfast/enclave/sgx"

// ENCLU carries out the ENCLU instruction that c stands at: RAX is the leaf,
// next the address behind the instruction. target is the enclave whose ELRANGE
// holds the TCS in RBX, for EENTER and ERESUME; the backend looks it up.
//
// Afterwards the registers are those to go on with, unless the outcome has a
// vector, which the backend then raises (inside an enclave that means AEX). For
// leaves with an error code RAX and ZF are set; CF, PF, AF, OF, SF are cleared.
func (m *Monitor) ENCLU(c *CPU, target *Enclave, next uint64) Outcome {
	var o Outcome
	inside := c.e != nil
	switch leaf := sgx.ENCLU(c.Regs.RAX); leaf {
	case sgx.EENTER, sgx.ERESUME:
		if inside {
			return gp
		}
		if leaf == sgx.EENTER {
			return m.EENTER(c, target, next)
		}
		return m.ERESUME(c, target, next)
	default:
		if !inside {
			return gp
		}
		switch leaf {
		case sgx.EEXIT:
			return m.EEXIT(c)
		case sgx.EREPORT:
			if o = m.EREPORT(c); o.OK() {
				c.Regs.RIP = next // sets no flags and no code
			}
			return o
		case sgx.EGETKEY:
			o = m.EGETKEY(c)
		case sgx.EACCEPT:
			o = m.EACCEPT(c)
		case sgx.EACCEPTCOPY:
			o = m.EACCEPTCOPY(c)
		case sgx.EMODPE:
			if o = m.EMODPE(c); o.OK() {
				c.Regs.RIP = next
			}
			return o
		default:
			return gp
		}
	}
	if o.Vector != 0 {
		return o
	}
	c.Regs.RAX = uint64(o.Code)
	c.Regs.RFLAGS &^= flagCF | flagPF | flagAF | flagZF | flagSF | flagOF
	if o.Code != sgx.Success {
		c.Regs.RFLAGS |= flagZF
	}
	c.Regs.RIP = next
	return o
}
