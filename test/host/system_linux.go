// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/florianl/go-nfqueue/v2"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"holdfast/enclave/kvm"
)

var systemProbes = []probe{
	{"root", "namespaces, eBPF, low ports: the demo, the latch and their tests", probeRoot},
	{"kernel", "5.8 is the oldest with the ring buffer that the latch uses", probeKernel},
	{"netns", "the demo and all network tests (a namespace and a veth pair are made and removed)", probeNetns},
	{"bpf", "the latch's hold and observer (a cgroup_skb program is loaded)", probeBPF},
	{"cgroup2", "scopes of the latch (a child group is made and removed)", probeCgroup2},
	{"cgroup-bpf", "the latch's hold (a program is attached to a child group)", probeCgroupBPF},
	{"bpffs", "links that outlive a dead gate, so that the door stays shut", probeBPFFS},
	{"btf", "type information of the kernel for eBPF", probeBTF},
	{"mptcp", "the test that MPTCP is refused, against a kernel that speaks it", probeMPTCP},
	{"nfqueue", "the later netfilter gate for routed traffic (a queue is bound)", probeNFQueue},
	{"nft-queue", "the netfilter gate by an nftables rule instead of the compatible iptables target (a table is made and removed)", probeNFTQueue},
	{"vlan", "the latch's test over a VLAN (8021q)", func() (string, error) { return probeLink(&netlink.Vlan{VlanId: 5}) }},
	{"vxlan", "the latch's test over an overlay network", func() (string, error) { return probeLink(&netlink.Vxlan{VxlanId: 5, Port: 4789}) }},
	{"tun", "the latch's test over a VPN, and the benchmarks' wire with a round-trip time", func() (string, error) { return openDevice("/dev/net/tun") }},
	{"kvm", "enclaves in virtual machines", probeKVM},
	{"enclave-gu", "enclave mode GU (instructions are tried in ring 3 of a virtual machine)", probeEnclave(kvm.GU)},
	{"enclave-p", "enclave mode P (ENCLU is tried in ring 0 of a virtual machine)", probeEnclave(kvm.P)},
	{"vtpmx", "`holdfast tpm serve --vtpm-proxy`", func() (string, error) { return openDevice("/dev/vtpmx") }},
	{"tpm", "`device:` with a real TPM", probeTPM},
}

func probeRoot() (string, error) {
	if id := os.Geteuid(); id != 0 {
		return "", fmt.Errorf("effective user id is %d, not 0", id)
	}
	return "effective user id 0", nil
}

func probeKernel() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("kernel release %q is not understood", release)
	}
	if major < 5 || major == 5 && minor < 8 {
		return "", fmt.Errorf("Linux %s, older than 5.8", release)
	}
	return "Linux " + release + " " + runtime.GOARCH, nil
}

// ownThread runs fn on a thread that is thrown away afterwards, so that what
// fn unshares ends with it.
func ownThread(fn func() (string, error)) (fact string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		fact, err = fn()
	}()
	<-done
	return fact, err
}

// inNewNetns runs fn in a fresh network namespace.
func inNewNetns(fn func() (string, error)) (string, error) {
	return ownThread(func() (string, error) {
		ns, err := netns.New()
		if err != nil {
			return "", fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
		}
		defer ns.Close()
		return fn()
	})
}

func probeNetns() (string, error) {
	return inNewNetns(func() (string, error) {
		a := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}
		if err := netlink.LinkAdd(a); err != nil {
			return "", fmt.Errorf("make a veth pair: %w", err)
		}
		return "namespace and veth pair made", netlink.LinkDel(a)
	})
}

// passAll is the smallest cgroup_skb program: it lets every packet pass.
func passAll() (*ebpf.Program, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "holdfast_probe", Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetEgress, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
}

func probeBPF() (string, error) {
	p, err := passAll()
	if err != nil {
		return "", fmt.Errorf("load a cgroup_skb program: %w", err)
	}
	defer p.Close()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "holdfast_probe", Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	if err != nil {
		return "", fmt.Errorf("make a ring buffer: %w", err)
	}
	return "cgroup_skb program and ring buffer loaded", m.Close()
}

// CgroupRoot is the mount point of the cgroup v2 hierarchy.
func CgroupRoot() (string, error) {
	m, err := mounts("cgroup2")
	if err != nil {
		return "", err
	}
	if len(m) == 0 {
		return "", errors.New("no cgroup v2 hierarchy is mounted (/proc/self/mountinfo names none)")
	}
	return m[0], nil
}

// mounts lists the mount points of a file system type.
func mounts(fsType string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields := strings.Fields(before)
		if ok && len(fields) >= 5 && strings.HasPrefix(after, fsType+" ") {
			out = append(out, fields[4])
		}
	}
	return out, nil
}

// inChildCgroup makes a child of the cgroup v2 root for the time of fn.
func inChildCgroup(fn func(dir string) (string, error)) (string, error) {
	root, err := CgroupRoot()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(root, "holdfast-probe-")
	if err != nil {
		return "", fmt.Errorf("make a child group below %s: %w", root, err)
	}
	fact, err := fn(dir)
	return fact, errors.Join(err, os.Remove(dir))
}

func probeCgroup2() (string, error) {
	return inChildCgroup(func(dir string) (string, error) { return "mounted at " + filepath.Dir(dir), nil })
}

func probeCgroupBPF() (string, error) {
	return inChildCgroup(func(dir string) (string, error) {
		p, err := passAll()
		if err != nil {
			return "", fmt.Errorf("load: %w", err)
		}
		defer p.Close()
		l, err := link.AttachCgroup(link.CgroupOptions{Path: dir, Attach: ebpf.AttachCGroupInetEgress, Program: p})
		if err != nil {
			return "", fmt.Errorf("attach: %w", err)
		}
		return "program attached by a link", l.Close()
	})
}

func probeBPFFS() (string, error) {
	if m, err := mounts("bpf"); err == nil && len(m) > 0 {
		return "mounted at " + m[0], nil
	}
	return ownThread(func() (string, error) {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return "", fmt.Errorf("not mounted, and unshare(CLONE_NEWNS): %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return "", fmt.Errorf("not mounted, and making mounts private: %w", err)
		}
		dir, err := os.MkdirTemp("", "holdfast-probe-")
		if err != nil {
			return "", err
		}
		defer os.Remove(dir)
		if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
			return "", fmt.Errorf("not mounted, and mount -t bpf: %w", err)
		}
		return "not mounted, can be mounted", unix.Unmount(dir, 0)
	})
}

func probeBTF() (string, error) {
	const path = "/sys/kernel/btf/vmlinux"
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var magic [2]byte
	if _, err := f.Read(magic[:]); err != nil {
		return "", err
	}
	if m := uint16(magic[0]) | uint16(magic[1])<<8; m != 0xeb9f && m != 0x9feb {
		return "", fmt.Errorf("%s begins with %#04x, expected BTF's 0xeb9f", path, m)
	}
	return path, nil
}

func probeMPTCP() (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return "", fmt.Errorf("socket(IPPROTO_MPTCP): %w", err)
	}
	return "socket made", unix.Close(fd)
}

func probeNFQueue() (string, error) {
	return inNewNetns(func() (string, error) {
		q, err := nfqueue.Open(&nfqueue.Config{NfQueue: 1, MaxPacketLen: 64, MaxQueueLen: 1, WriteTimeout: time.Second})
		if err != nil {
			return "", fmt.Errorf("open nfnetlink_queue: %w", err)
		}
		return "nfnetlink_queue opened and configured", q.Close()
	})
}

func probeNFTQueue() (string, error) {
	return inNewNetns(func() (string, error) {
		c, err := nftables.New()
		if err != nil {
			return "", err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "holdfast_probe"})
		chain := c.AddChain(&nftables.Chain{Name: "c", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Queue{Num: 1}}})
		if err := c.Flush(); err != nil {
			return "", fmt.Errorf("a rule with the queue statement: %w", err)
		}
		return "rule with the queue statement accepted", nil
	})
}

// probeLink makes a device over a veth device in a namespace of its own.
func probeLink(l netlink.Link) (string, error) {
	return inNewNetns(func() (string, error) {
		below := netlink.LinkAttrs{Name: "below"}
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: below, PeerName: "other"}); err != nil {
			return "", fmt.Errorf("a veth pair: %w", err)
		}
		b, err := netlink.LinkByName("below")
		if err != nil {
			return "", err
		}
		l.Attrs().Name, l.Attrs().ParentIndex = "probe", b.Attrs().Index
		if err := netlink.LinkAdd(l); err != nil {
			return "", fmt.Errorf("a device of type %s: %w", l.Type(), err)
		}
		return "device of type " + l.Type() + " made and removed", nil
	})
}

func openDevice(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	return path + " opened", f.Close()
}

func probeKVM() (string, error) {
	const getAPIVersion = 0xae00 // KVM_GET_API_VERSION, linux/kvm.h
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	v, err := unix.IoctlRetInt(int(f.Fd()), getAPIVersion)
	if err != nil {
		return "", fmt.Errorf("KVM_GET_API_VERSION: %w", err)
	}
	if v != 12 {
		return "", fmt.Errorf("KVM API version %d, expected 12", v)
	}
	return "/dev/kvm, API version 12", nil
}

func probeTPM() (string, error) {
	for _, p := range []string{"/dev/tpmrm0", "/dev/tpm0"} {
		if fact, err := openDevice(p); !errors.Is(err, fs.ErrNotExist) {
			return fact, err
		}
	}
	return "", errors.New("neither /dev/tpmrm0 nor /dev/tpm0 exists")
}
