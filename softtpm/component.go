// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// maxComponents bounds Options.Components.
const maxComponents = 16

// Component is something attached to the TPM that can take keys from it, such
// as a self-encrypting drive (Part 1, "Attached Component"; Part 3, 32). Its
// methods run inside a command and must not call the TPM.
type Component interface {
	// Values returns what AC_GetCapability tells, with ascending types.
	Values() []tpm2.ACOutput
	// Receive takes the object of AC_Send and the caller's data. Nothing may
	// be kept without a copy: both are the TPM's. The return value is the
	// command's; {ATError, AENone} says that all went well.
	Receive(public *tpm2.Public, sensitive *tpm2.Sensitive, data []byte) tpm2.ACOutput
}

// component returns the component with handle h, nil if there is none.
func (t *TPM) component(h tpm2.Handle) Component {
	if i := int64(h) - int64(tpm2.HandleACFirst); i >= 0 && i < int64(len(t.opt.Components)) {
		return t.opt.Components[i]
	}
	return nil
}
