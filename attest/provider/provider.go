// SPDX-License-Identifier: Apache-2.0

// Package provider says how an Attester gets evidence, whatever makes it: a
// TPM (provider/tpmquote) or, in tests and benchmarks, a simulated security
// processor (provider/simulated).
package provider

import (
	"context"

	"holdfast/attest/evidence"
)

// Provider makes reports. Security processors are serial, so calls of Report
// do not overlap; the caller sees to it. Endorsements may be asked at any
// time between reports.
type Provider interface {
	// Type is the media type of the reports.
	Type() string
	// Report makes one report over data. An error leaves the provider usable
	// unless it says otherwise; ctx bounds waiting, not work in the device.
	Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error)
	// Endorsements are what the Needs of later reports name. They may change
	// while the provider runs (an event log grows); a report's Needs are
	// always among those returned after it was made.
	Endorsements(ctx context.Context) ([]evidence.Endorsement, error)
	// Close frees what the provider holds in the device.
	Close() error
}
