// SPDX-License-Identifier: Apache-2.0

package gate

// Example is a configuration with every key, for help texts. A test parses it.
const Example = `services:
  shop.example:                     # server name (SNI) as clients send it; a name that is not listed is refused
    agents:                         # all are asked, the one that saw the session answers
      - tcp:192.0.2.10:7443
      - tcp:192.0.2.11:7443
      - nats:192.0.2.20:4222/prod   # or all agents on a rendezvous, behind a load balancer
    trust: trust.yaml               # who may sign (holdfast attest enroll); relative to this file
    policy: policy.yaml             # what is acceptable (holdfast attest verify --help)
    grade: hello                    # binder: hello (default), or share for paths that alter the hellos
plain:                              # TCP destinations that are not gated unless they begin like TLS: ADDRESS[/BITS][:PORT]
  - 127.0.0.0/8
  - 10.1.2.3:5432
  - "[2001:db8::/32]:80"
plain-tls: ["10.1.2.4:443"]         # destinations whose TLS is not gated either: who controls names can lead any client there
resolvers: [127.0.0.53]             # DNS servers, ADDRESS[:PORT], by UDP and TCP; all other UDP is refused
deadline: 5s                        # from the ClientHello to the release; then the connection is reset
scope:
  cgroup: /system.slice/shop.service  # for latch gate; latch run makes a control group of its own. Or one of:
  # unit: shop.service                # wherever systemd puts it
  # machine: true                     # every socket but what exempt: names
  # routed: [docker0]                 # what this machine routes for those behind these devices
  users: [shop]                     # only sockets of these users (alone: wherever they are)
  netns: /run/netns/shop            # only sockets of this network namespace (alone: of any cgroup)
  exempt:
    cgroups: [/system.slice/holdfast-agent.service]
    units: [systemd-timesyncd.service]
    users: [nobody]
    ports: [22]                     # connections that listeners on these local ports accept
    udp: ["192.0.2.123:123"]
proxy:                              # for latch proxy
  - {address: 127.0.0.1:3128, mode: connect}
  - {address: 127.0.0.1:1080, mode: socks5}
  - {address: 127.0.0.1:3129, mode: transparent, remote: false}
operations:                         # all parts may be left out
  control: /run/holdfast/gate.sock  # for holdfast latch status and reload; mode 0600
  metrics: 127.0.0.1:9477           # Prometheus; or unix:PATH; other addresses need metrics-remote: true
  metrics-remote: false
  audit:
    file: /var/log/holdfast/gate.jsonl  # one JSON object for each decision; opened again on SIGHUP
    queue: 4096                     # events that may wait; what does not fit is counted, and the count logged
    max-bytes: 268435456            # of the file; then events are counted only, until it was moved away
limits:
  connections: 16384                # that wait for a verdict at once
`
