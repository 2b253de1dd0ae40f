// SPDX-License-Identifier: Apache-2.0

package main

// Exit statuses; scripts rely on them.
const (
	exitDone        = 0
	exitRefused     = 1 // refused, failed verification, or failed
	exitUsage       = 2 // wrong use
	exitUnsupported = 3 // this machine lacks a feature, which the message names
)

// statusError carries an exit status with its cause.
type statusError struct {
	status int
	err    error
}

func (e statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

func usageError(err error) error       { return statusError{exitUsage, err} }
func unsupportedError(err error) error { return statusError{exitUnsupported, err} }
func refusedError(err error) error     { return statusError{exitRefused, err} }
