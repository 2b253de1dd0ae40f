// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// Values are the PCRs of one bank after a replay.
type Values struct {
	Hash    tpm2.Alg
	Value   [maxPCR + 1][]byte
	Touched [maxPCR + 1]bool // some event extended it
	Unknown [maxPCR + 1]bool // some log extends it without a digest for this bank
}

// Replay computes the PCR values of one bank to which the logs lead, in the
// order given: firmware first, then what ran after it.
//
// PCRs start at zero, 17 to 22 at all ones (PC Client Platform TPM Profile,
// section 4.6), PCR 0 at the locality of TPM2_Startup, which firmware records
// as a StartupLocality event before it extends anything there.
func Replay(bank tpm2.Alg, logs ...*Log) (*Values, error) {
	f := bank.New()
	if f == nil {
		return nil, fmt.Errorf("replay: %v is no hash that can be computed here", bank)
	}
	v := &Values{Hash: bank}
	for i := range v.Value {
		fill := byte(0)
		if i >= 17 && i <= 22 {
			fill = 0xff
		}
		v.Value[i] = bytes.Repeat([]byte{fill}, f.Size())
	}
	for _, l := range logs {
		for i := range l.Events {
			e := &l.Events[i]
			if e.Type == EvNoAction {
				if err := v.locality(e); err != nil {
					return nil, fmt.Errorf("replay: event %d: %w", i, err)
				}
				continue
			}
			d := e.Digest(bank)
			if d == nil {
				v.Unknown[e.PCR] = true
				continue
			}
			f.Reset()
			f.Write(v.Value[e.PCR])
			f.Write(d)
			v.Value[e.PCR] = f.Sum(v.Value[e.PCR][:0])
			v.Touched[e.PCR] = true
		}
	}
	return v, nil
}

// locality takes the StartupLocality event (Firmware Profile, 10.4.5.3).
func (v *Values) locality(e *Event) error {
	if !bytes.HasPrefix(e.Data, []byte(localityEvent)) {
		return nil
	}
	if e.PCR != 0 || len(e.Data) != len(localityEvent)+1 {
		return fmt.Errorf("a StartupLocality event for PCR %d with %d bytes", e.PCR, len(e.Data))
	}
	l := e.Data[len(localityEvent)]
	if l != 0 && l != 3 && l != 4 {
		return fmt.Errorf("startup locality: expected 0, 3 or 4, got %d", l)
	}
	if last := &v.Value[0][len(v.Value[0])-1]; v.Touched[0] || *last != 0 {
		return fmt.Errorf("a StartupLocality event after PCR 0 was set")
	} else {
		*last = l
	}
	return nil
}
