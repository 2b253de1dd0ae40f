// SPDX-License-Identifier: Apache-2.0

// Package metrics shows the counters of a gate or an agent to Prometheus.
// NewGate and NewAgent make the handler for GET /metrics. There are no names of
// peers in it, and the number of series is bounded by the vocabulary of reasons
// and the configured agents.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/latch/audit"
	"holdfast/latch/gate"
)

// source gives a registry what a function says at the moment.
type source func(emit func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string))

func (s source) Describe(ch chan<- *prometheus.Desc) {} // unchecked: labels come and go

func (s source) Collect(ch chan<- prometheus.Metric) {
	s(func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	})
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdfast_"+name, help, labels, nil)
}

// handler serves a registry that also has the process's own figures.
func handler(r *prometheus.Registry) http.Handler {
	r.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// Held is the histogram of the time that a released connection was held.
type Held struct{ h prometheus.Histogram }

// NewHeld makes the histogram, from half a millisecond to half a minute.
func NewHeld() *Held {
	return &Held{prometheus.NewHistogram(prometheus.HistogramOpts{Name: "holdfast_gate_held_seconds",
		Help: "Time from the first copy of a released connection to its release.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)})}
}

// Observe adds one released connection.
func (h *Held) Observe(d time.Duration) { h.h.Observe(d.Seconds()) }

// NewGate is the handler of a gate. audit may be nil.
func NewGate(g *gate.Gate, held *Held, log *audit.Log) http.Handler {
	var (
		released  = desc("gate_released_total", "Connections that were released.")
		refused   = desc("gate_refused_total", "Connections that were refused, by reason (holdfast latch explain).", "reason")
		waiting   = desc("gate_waiting", "Connections that wait for a verdict.")
		announced = desc("gate_announcements_total", "Announcements sent to agents.")
		reports   = desc("gate_reports_total", "Reports received from agents.")
		verified  = desc("gate_verifications_total", "Reports verified.")
		retries   = desc("gate_release_retries_total", "Releases that the kernel did not carry out at the first try.")
		records   = desc("gate_records_total", "Copies of packets read from the hold.")
		connected = desc("gate_agent_connected", "1 while the agent is connected.", "agent")
	)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(held.h, source(func(emit func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
		s := g.Stats()
		emit(released, counter, float64(s.Released))
		for reason, n := range s.Refused {
			emit(refused, counter, float64(n), reason)
		}
		emit(waiting, gauge, float64(s.Waiting))
		emit(announced, counter, float64(s.Announced))
		emit(reports, counter, float64(s.Reports))
		emit(verified, counter, float64(s.Verified))
		emit(retries, counter, float64(s.Retries))
		emit(records, counter, float64(s.Records))
		for _, l := range g.Links() {
			v := 0.0
			if l.Connected {
				v = 1
			}
			emit(connected, gauge, v, l.Agent)
		}
	}), auditSource(log))
	return handler(r)
}

func auditSource(log *audit.Log) source {
	written := desc("audit_written_total", "Events written to the audit log.")
	missing := desc("audit_missing_total", "Events that are missing in the audit log.")
	return func(emit func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
		if log == nil {
			return
		}
		w, m := log.Counts()
		emit(written, counter, float64(w))
		emit(missing, counter, float64(m))
	}
}
