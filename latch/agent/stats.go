// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"holdfast/latch/channel"
	"holdfast/latch/door"
	"holdfast/latch/observe"
)

// Stats counts since the start of the agent.
type Stats struct {
	Reports         uint64            `json:"reports"`
	ReportsFailed   uint64            `json:"reports_failed"`
	Attested        uint64            `json:"attested"` // sessions
	LargestGroup    int               `json:"largest_group"`
	ReportMicros    uint64            `json:"report_us"` // sum of the times in the security processor
	Refused         map[string]uint64 `json:"refused"`   // by code
	WaitObserved    int               `json:"parked_announcements"`
	WaitAnnounced   int               `json:"parked_observations"`
	Manifests       uint64            `json:"manifests"`        // of batch services
	ClientsVerified uint64            `json:"clients_verified"` // of mutual sessions
	Wakes           uint64            `json:"wakes"`            // looks of the loop
	ProviderOpened  uint64            `json:"provider_opened"`
	Observe         observe.Stats     `json:"observe"`
	Channel         channel.Stats     `json:"channel"`
	Door            *door.Stats       `json:"door,omitempty"` // of services that want evidence of clients
}
