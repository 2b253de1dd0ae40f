// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The door of a server that wants evidence of its clients: of a connection to
// a listed port, TCP gets nothing but plaintext records (hellos,
// change_cipher_spec, alerts) until the agent has verified the client. What is
// refused here is to TCP as if it had been lost. A client with a gate sends
// nothing else before that moment, so that nothing is refused and nothing is
// sent twice.
//
// What TCP takes cannot be told from copies that it drops (a bad checksum is
// found later), so every passed segment must agree with what earlier ones said
// about the records' heads: else a false copy with a long record would make
// room for a true one with a short record and a request behind it.
//
// Concurrency: ingress of one socket may run on several CPUs at once. The heads
// seen so far are one word, which changes by compare-and-swap.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IPPROTO_TCP 6
#define TCP_URG 32
#define MAX_RECORDS 4

/* counters: keep in step with ../door_linux.go */
#define C_SHUT 0 /* segments that were refused */
#define C_OPENED 1
#define C_CONNS 2
#define C_HEADS 3 /* refused since they contradict an earlier segment */
#define C_EARLY 4 /* payload before the connection was accepted */
#define C_N 5

struct door {
	__u32 base; /* first byte of the client's stream */
	__u32 open;
	__u64 heads; /* of the records so far: 16 bits each, type << 14 | length */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct door);
} doors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u8);
} ports SEC(".maps");

/* Sockets that may be opened, by cookie: the agent adds, the program removes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, __u64);
	__type(value, __u8);
} verified SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, C_N);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

static __always_inline void bump(__u32 i)
{
	__u64 *v = bpf_map_lookup_elem(&counters, &i);
	if (v)
		*v += 1;
}

struct pkt {
	__u32 seq, off, len;
	__u8 flags;
};

static __always_inline int parse(struct __sk_buff *skb, struct pkt *p)
{
	__u8 h[40], t[20];
	__u32 at, end;

	if (bpf_skb_load_bytes(skb, 0, h, 20) < 0)
		return -1;
	if (h[0] >> 4 == 4) {
		at = (h[0] & 15) * 4;
		if (at < 20 || (h[6] & 0x3f) || h[7] || h[9] != IPPROTO_TCP)
			return -1;
		end = h[2] << 8 | h[3];
		if (!end)
			end = skb->len;
	} else {
		if (bpf_skb_load_bytes(skb, 0, h, 40) < 0 || h[6] != IPPROTO_TCP)
			return -1; /* an extension header: not understood */
		at = 40;
		end = h[4] << 8 | h[5];
		end = end ? end + 40 : skb->len;
	}
	if (end > skb->len || bpf_skb_load_bytes(skb, at, t, 20) < 0)
		return -1;
	p->seq = (__u32)t[4] << 24 | (__u32)t[5] << 16 | (__u32)t[6] << 8 | t[7];
	p->flags = t[13];
	p->off = at + (t[12] >> 4) * 4;
	if (p->off > end)
		return -1;
	p->len = end - p->off;
	return 0;
}

SEC("sockops") int door_sockops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	if (!sk || ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	__u16 port = ctx->local_port;
	if (!bpf_map_lookup_elem(&ports, &port))
		return 1;
	struct door *d = bpf_sk_storage_get(&doors, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!d)
		return 1; /* no storage: shut */
	d->base = ctx->rcv_nxt;
	d->open = 0;
	d->heads = 0;
	bump(C_CONNS);
	return 1;
}

/* summary of the record head at off: type << 14 | length, 0 if it must not pass. */
static __always_inline __u32 head(struct __sk_buff *skb, __u32 off)
{
	__u8 h[5];
	if (bpf_skb_load_bytes(skb, off, h, 5) < 0 || h[1] != 3)
		return 0;
	__u32 len = h[3] << 8 | h[4];
	if (h[0] == 0x16 && len > 0 && len < 1 << 14)
		return 1 << 14 | len; /* handshake: a plaintext hello */
	if (h[0] == 0x14 && len == 1)
		return 2 << 14 | len; /* change_cipher_spec */
	if (h[0] == 0x15 && len == 2)
		return 3 << 14 | len; /* alert */
	return 0;
}

static __always_inline int shut(struct __sk_buff *skb, struct pkt *p, struct door *d)
{
	__u64 old = d->heads, w = old;
	__u32 pos = d->base;
#pragma unroll
	for (int i = 0; i < MAX_RECORDS; i++) {
		__u32 known = (w >> (16 * i)) & 0xffff;
		__s32 from = pos - p->seq; /* of the head within the segment */
		__s32 left = p->len - from;
		if (left <= 0)
			break; /* the segment ends before this record */
		if (from > -5) { /* it covers a part of the head: then all of it, and as known */
			if (from < 0 || left < 5)
				return C_SHUT + 1;
			__u32 s = head(skb, p->off + from);
			if (!s)
				return C_SHUT + 1;
			if (known && known != s)
				return C_HEADS + 1;
			w |= (__u64)s << (16 * i);
			known = s;
		} else if (!known) {
			return C_SHUT + 1; /* a gap before it */
		}
		pos += 5 + (known & 0x3fff);
	}
	if ((__s32)(p->seq + p->len - pos) > 0)
		return C_SHUT + 1;
	if (w != old && __sync_val_compare_and_swap(&d->heads, old, w) != old)
		return C_SHUT + 1;
	return 0;
}

SEC("cgroup_skb/ingress") int door_ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	__u16 port = sk->src_port;
	struct door *d = bpf_sk_storage_get(&doors, sk, 0, 0);
	if (d && d->open)
		return 1;
	if (!d && !bpf_map_lookup_elem(&ports, &port))
		return 1;
	struct pkt p;
	if (parse(skb, &p) < 0) {
		bump(C_SHUT);
		return 0;
	}
	/* The urgent pointer would take bytes out of what the server reads. */
	if (!p.len && !(p.flags & TCP_URG))
		return 1;
	if (!d) {
		bump(sk->state == BPF_TCP_LISTEN ? C_EARLY : C_SHUT);
		return 0;
	}
	__u64 cookie = bpf_get_socket_cookie(skb);
	if (bpf_map_lookup_elem(&verified, &cookie)) {
		d->open = 1;
		bpf_map_delete_elem(&verified, &cookie);
		bump(C_OPENED);
		return 1;
	}
	if (p.flags & TCP_URG) {
		bump(C_SHUT);
		return 0;
	}
	int why = shut(skb, &p, d);
	if (why) {
		bump(why - 1);
		return 0;
	}
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
