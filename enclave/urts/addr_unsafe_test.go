// SPDX-License-Identifier: Apache-2.0

package urts

import "unsafe"

// addrOf tells a hostile enclave where the application keeps something.
func addrOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
