// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	_ "embed" // the object is part of the binary
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:embed bpf/observe.bpf.o
var object []byte

// ErrUnsupported is wrapped when the kernel or the privileges do not suffice.
var ErrUnsupported = errors.New("this machine cannot run the observer")

// load loads the programs with a ring of the given size.
func load(ringSize int) (*ebpf.Collection, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("observe: embedded eBPF object: %w", err)
	}
	spec.Maps["ring"].MaxEntries = uint32(ringSize)
	if err := spec.Variables["ring_quarter"].Set(uint32(ringSize / 4)); err != nil {
		return nil, fmt.Errorf("observe: embedded eBPF object: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("observe: %w: Linux 5.12 or newer with CONFIG_CGROUP_BPF, and CAP_BPF with CAP_NET_ADMIN, are needed: %w", ErrUnsupported, err)
	}
	return coll, nil
}

// attach attaches all programs to a cgroup, beside what others attached. They
// go away with the process: an observer that is dead attests nothing.
func attach(coll *ebpf.Collection, cgroup string) ([]link.Link, error) {
	var links []link.Link
	for _, p := range []struct {
		name string
		at   ebpf.AttachType
	}{
		{"sock_release", ebpf.AttachCgroupInetSockRelease},
		{"ingress", ebpf.AttachCGroupInetIngress},
		{"egress", ebpf.AttachCGroupInetEgress},
		{"sock_ops", ebpf.AttachCGroupSockOps},
		{"post_bind4", ebpf.AttachCGroupInet4PostBind},
		{"post_bind6", ebpf.AttachCGroupInet6PostBind},
	} {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: cgroup, Attach: p.at, Program: coll.Programs[p.name]})
		if err != nil {
			for _, l := range links {
				l.Close()
			}
			if errors.Is(err, os.ErrPermission) {
				err = fmt.Errorf("%w: %w", ErrUnsupported, err)
			}
			return nil, fmt.Errorf("observe: attach %s to %s: %w", p.name, cgroup, err)
		}
		links = append(links, l)
	}
	return links, nil
}
