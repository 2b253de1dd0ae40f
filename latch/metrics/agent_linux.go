// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/latch/agent"
	"holdfast/latch/audit"
)

// NewAgent is the handler of an agent. audit may be nil.
func NewAgent(stats func() agent.Stats, log *audit.Log) http.Handler {
	var (
		attested = desc("agent_attested_total", "Sessions that were attested.")
		refused  = desc("agent_refused_total", "Sessions that were refused, by reason (holdfast latch explain).", "reason")
		reports  = desc("agent_reports_total", "Reports made by the security processor.")
		failed   = desc("agent_reports_failed_total", "Reports that the security processor did not make.")
		seconds  = desc("agent_report_seconds_total", "Time spent in the security processor.")
		largest  = desc("agent_largest_group", "Most sessions under one report.")
		opened   = desc("agent_processor_opened_total", "Times that the security processor was opened.")
		parked   = desc("agent_parked", "What waits for its other half.", "what")
	)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(source(func(emit func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
		s := stats()
		emit(attested, counter, float64(s.Attested))
		for reason, n := range s.Refused {
			emit(refused, counter, float64(n), reason)
		}
		emit(reports, counter, float64(s.Reports))
		emit(failed, counter, float64(s.ReportsFailed))
		emit(seconds, counter, float64(s.ReportMicros)/1e6)
		emit(largest, gauge, float64(s.LargestGroup))
		emit(opened, counter, float64(s.ProviderOpened))
		emit(parked, gauge, float64(s.WaitObserved), "announcements")
		emit(parked, gauge, float64(s.WaitAnnounced), "observations")
	}), auditSource(log))
	return handler(r)
}
