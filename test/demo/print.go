// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
)

// Print writes a result for a person who has a minute.
func (r *Result) Print(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	p("")
	p("The same request, sent by curl to nginx (%s):", strings.Join(r.Programs, ", "))
	p("")
	p("  act                                      curl got      adversary read       time")
	p("  1  genuine server, plain TLS             %-12s  %-18s %7s", got(r.GenuinePlain.Answered), "(is not there)", ms(r.GenuinePlain.TotalMS))
	p("  2  genuine server, through the gate      %-12s  %-18s %7s  (%+.1f ms)", got(r.GenuineGated.Answered), "(is not there)", ms(r.GenuineGated.TotalMS), r.GenuineGated.AddedMS)
	p("  3  relay, plain TLS                      %-12s  %-18s %7s", got(r.RelayPlain.Answered), read(r.RelayPlain), ms(r.RelayPlain.TotalMS))
	p("  4  relay, through the gate               %-12s  %-18s %7s", got(r.RelayGated.Answered), read(r.RelayGated), ms(r.RelayGated.TotalMS))
	p("  5  relay that passes curl's hello on     %-12s  %-18s %7s", got(r.DecoyGated.Answered), read(r.DecoyGated), ms(r.DecoyGated.TotalMS))
	p("")
	p("The relay has the service's certificate key and owns the router. In act 3 it read:")
	p("")
	for _, l := range strings.Split(strings.TrimRight(r.RelayPlain.Request, "\r\n"), "\n") {
		p("    | %s", strings.TrimRight(l, "\r"))
	}
	p("")
	p("Why the gate released in act 2:  %s", r.GenuineGated.Evidence)
	p("Why it refused in act 4:         %s: %s", r.RelayGated.Reason, r.RelayGated.ReasonText)
	p("Why it refused in act 5:         %s: %s", r.DecoyGated.Reason, r.DecoyGated.ReasonText)
	p("A process without privileges asked for a quote over a binder of its own:")
	p("    the TPM:    %s", r.Unprivileged.TPMAnswer)
	p("    the TPM, had it access:  %s", r.Unprivileged.KeyAnswer)
	p("    the agent:  %s", r.Unprivileged.AgentAnswer)
	p("")
	p("Times are curl's own, medians of %d requests in acts 1 and 2, one in the others. The gate was up %s after `latch run`.", r.GenuineGated.Requests, strings.TrimSpace(ms(r.GenuineGated.GateUpMS)))
	p("Quantum-safe in this run:        %s", strings.Join(r.Crypto.Safe, "; "))
	p("NOT quantum-safe in this run:    %s", strings.Join(r.Crypto.NotSafe, "; "))
	p("")
	if r.AsPromised {
		p("Every outcome is as promised (%.0f s).", r.Seconds)
		return
	}
	p("NOT AS PROMISED (%.0f s):", r.Seconds)
	for _, b := range r.Broken {
		p("  - %s", strings.ReplaceAll(b, "\n", "\n    "))
	}
}

func got(answered bool) string {
	if answered {
		return "the answer"
	}
	return "a refusal"
}

func read(r Relayed) string {
	if r.RequestBytesLeaked == 0 && !r.AdversaryReadRequest {
		return "0 bytes"
	}
	return fmt.Sprintf("all of it, %d B", r.RequestBytesLeaked)
}

func ms(v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", v)
}
