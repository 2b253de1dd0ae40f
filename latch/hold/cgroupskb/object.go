// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the object is part of the binary
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
)

//go:embed bpf/hold.bpf.o
var object []byte

// sizes of the rings in bytes (powers of two): enough for some 500 to 1,500 hellos
// and 1,200 to 2,400 server flights that nobody has read yet.
const (
	ringOutSize = 1 << 20
	ringInSize  = 4 << 20
)

// objects is one load of the programs with its secrets.
type objects struct {
	coll *ebpf.Collection
	mark uint32 // of kicks; secret, new for each load
}

// load loads the object. keep, if not nil, is the sk_storage map of an earlier
// load: connections that it released stay released.
// netns, if not 0, is the number of the only network namespace in the scope.
func load(keep *ebpf.Map, opt *Options, netns uint64) (*objects, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("embedded eBPF object: %w", err)
	}
	var secret [24]byte
	rand.Read(secret[:])
	mark := binary.LittleEndian.Uint32(secret[16:])
	if mark == 0 {
		mark = 1 // 0 is every packet's mark
	}
	cookie := uint8(0)
	if !opt.noNetNSCookie && features.HaveProgramHelper(ebpf.CGroupSKB, asm.FnGetNetnsCookie) == nil {
		cookie = 1
	}
	if netns != 0 && cookie == 0 {
		return nil, fmt.Errorf("the programs cannot tell network namespaces apart on this kernel (helper bpf_get_netns_cookie for cgroup_skb); gate a cgroup or a user instead")
	}
	flag := map[bool]uint8{true: 1}
	for name, v := range map[string]any{
		"narrow": flag[opt.Narrow.active()], "by_user": flag[len(opt.Narrow.Users) > 0], "only_netns": netns,
		"scope_id":   binary.LittleEndian.Uint32(secret[20:]) | 1,
		"kick_mark":  mark,
		"nonce_key0": binary.LittleEndian.Uint64(secret[:]), "nonce_key1": binary.LittleEndian.Uint64(secret[8:]),
		"have_netns_cookie": cookie,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("embedded eBPF object: constant %s: %w", name, err)
		}
	}
	clear(secret[:])
	spec.Maps["ring_out"].MaxEntries = uint32(opt.ringOut)
	spec.Maps["ring_in"].MaxEntries = uint32(opt.ringIn)
	var o ebpf.CollectionOptions
	if keep != nil {
		o.MapReplacements = map[string]*ebpf.Map{"conns": keep}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return nil, fmt.Errorf("the kernel did not take the hold programs (Linux 5.12 or newer with CONFIG_CGROUP_BPF, and CAP_BPF with CAP_NET_ADMIN are needed): %w", err)
	}
	return &objects{coll, mark}, nil
}
