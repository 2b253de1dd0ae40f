// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"errors"

	"holdfast/enclave/pager"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts"
)

// sgx_status_t of failed loads (linux-sgx, common/inc/sgx_error.h).
const (
	statusUnexpected         = 0x0001
	statusInvalidEnclave     = 0x2001
	statusInvalidSignature   = 0x2003
	statusNDebugEnclave      = 0x2004
	statusOutOfEPC           = 0x2005
	statusInvalidAttribute   = 0x3002
	statusServiceUnavailable = 0x4001
	statusInvalidPrivilege   = 0x4004
)

// errNoDebug: the application wants a debug enclave that its signer forbids.
var errNoDebug = errors.New("the enclave is signed for production: it cannot be loaded as a debug enclave")

// loadStatus is what Intel's library returns for a failed load.
func loadStatus(err error) uint32 {
	var format *image.FormatError
	var leaf *urts.LeafError
	var status urts.StatusError
	switch {
	case errors.Is(err, errNoDebug):
		return statusNDebugEnclave
	case errors.Is(err, pager.ErrFull):
		return statusOutOfEPC
	case errors.Is(err, errTooMany):
		return statusServiceUnavailable
	case errors.As(err, &status): // the trusted runtime did not initialize
		return uint32(status)
	case errors.As(err, &format):
		return statusInvalidEnclave
	case errors.As(err, &leaf):
		switch leaf.Outcome.Code {
		case sgx.InvalidSigStruct, sgx.InvalidSignature:
			return statusInvalidSignature
		case sgx.InvalidAttribute:
			return statusInvalidAttribute
		case sgx.InvalidEInitToken:
			return statusInvalidPrivilege
		case sgx.InvalidMeasurement:
			return statusInvalidEnclave
		}
		if leaf.Leaf == "ECREATE" || leaf.Leaf == "EADD" {
			return statusInvalidEnclave
		}
	}
	return statusUnexpected
}

// mayDebug reports whether the signer lets an enclave be loaded for debugging.
func mayDebug(s *sgx.SigStruct) bool {
	return s.AttrMask.Flags&sgx.FlagDebug == 0 || s.Attributes.Flags&sgx.FlagDebug != 0
}
