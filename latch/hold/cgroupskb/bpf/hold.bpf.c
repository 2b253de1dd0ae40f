// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The hold of local sockets: a pair of cgroup_skb programs. Egress lets out of
// a gated TCP connection only control segments and the ClientHello; what it
// refuses (return 0) stays at the head of the socket's own write queue.
// Ingress copies what the peer sends and opens the door when a kick comes: a
// TCP segment from the gate with the secret mark, the socket's cookie, the
// connection's nonce, the end of the verified bytes and the number of segments
// that were examined. Letters in brackets are the rules of the design page.
//
// Concurrency: egress of one socket runs under the socket lock; ingress may
// run on several CPUs at once for one socket, before TCP sees the segment and
// without the lock. Therefore door (state and generation in one word) changes
// by compare-and-swap, and count by an atomic add before the copy is made.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define WINDOW 4096 /* first bytes of the peer's stream that are copied */
#define MAX_HELLO 8192 /* a ClientHello record, header included */

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOCK_STREAM 1
#define SOCK_RAW 3
#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_ACK 16
#define TCP_URG 32

/* state: low word of door; the high word is the generation (one per SYN) */
#define S_NEW 0 /* no payload has left */
#define S_HELLO 1 /* the ClientHello, or a part of it, has left */
#define S_OPEN 2
#define S_POISON 3 /* a copy was lost: shut for ever [b] */
#define S_PLAIN 4 /* a destination that passes in the clear, and the first byte was not TLS's */
#define S_OUTSIDE 5 /* not in this scope, as far as conn.scope says for which */

/* values of the map plain */
#define PASS_ANY 1 /* whatever it is */
#define PASS_CLEAR 2 /* unless it begins like TLS: names lead where the adversary wants */

/* kind and reason of a record: keep in step with ../../hold.go */
#define K_OUTBOUND 1
#define K_INBOUND 2
#define K_DENIED 3
#define K_RELEASED 4
#define K_RETRY 5

#define R_NONE 0
#define R_NOT_TLS 1
#define R_EARLY_BYTES 2
#define R_TOO_LONG 3
#define R_SYN_DATA 4
#define R_MPTCP 5
#define R_UDP 6
#define R_PROTOCOL 7
#define R_NOT_FROM_SYN 8
#define R_SERVER_FIRST 9
#define R_LOST_COPY 10
#define R_PACKET 11
#define R_NOT_TAKEN 12
#define R_UNEXAMINED 13
#define R_WRONG_KICK 14
#define R_URGENT 15
/* counters only */
#define C_HELD 16
#define C_RELEASED 17
#define C_HELLO 18
#define C_INBOUND 19
#define C_HELLO2 20
#define C_STRAY_FIN 21
#define C_N 22

/* set by the loader before the programs are loaded */
const volatile __u32 kick_mark = 0;
const volatile __u64 nonce_key0 = 0, nonce_key1 = 0;
const volatile __u8 have_netns_cookie = 0;
/* of a scope that is less than its cgroup */
const volatile __u8 narrow = 0; /* 1: not all of the cgroup is in the scope */
const volatile __u8 by_user = 0; /* 1: only sockets of listed users are */
const volatile __u64 only_netns = 0; /* not 0: only sockets of this network namespace are */
const volatile __u32 scope_id = 0; /* of this load */

struct conn {
	__u64 door; /* generation << 32 | state */
	__u64 nonce;
	__u32 isn; /* of our SYN */
	__u32 syn; /* 1 once our SYN was seen */
	__u32 hello; /* first byte of the ClientHello */
	__u32 copied; /* after the last byte that was copied and let out */
	__u32 end; /* after the last byte that may leave */
	__u32 second; /* 1: CCS before the second hello has left, 2: second hello begun */
	__u32 base; /* first byte of the peer's stream */
	__u32 count; /* inbound segments near base [a] */
	__u32 told; /* reasons that were reported, one bit each */
	__u32 early; /* 1 once inbound payload passed before the hello (PASS_CLEAR) */
	__u32 scope; /* of S_OUTSIDE: scope_id of the load that found it so */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

/* Two rings: the first wakes the gate (hellos, denials), the second is read
 * when evidence comes. Sizes are set by the loader. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} ring_out SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring_in SEC(".maps");

/* Who sleeps and wants to be woken; shared with user space by mmap: keep in step
 * with ../wait.go. A wake-up by the ring's own rule would be an interrupt to this
 * very CPU for nearly every record, whether anybody sleeps or not. */
struct ctl {
	__u32 out, in; /* of ring_out, of ring_in */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ctl);
} ctl SEC(".maps");

/* wakeup: flags with which a record is submitted. The exchange is a full
 * barrier: either it sees the flag, or user space, which sets it before it
 * looks, sees the record that was reserved before. */
static __always_inline __u64 wakeup(void *ring)
{
	__u32 zero = 0;
	struct ctl *c = bpf_map_lookup_elem(&ctl, &zero);
	if (!c)
		return BPF_RB_FORCE_WAKEUP;
	__u32 *flag = ring == (void *)&ring_in ? &c->in : &c->out;
	return __sync_lock_test_and_set(flag, 0) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

/* Destinations that pass. Port 0 stands for any port. */
struct dst {
	__u32 bits; /* 32 (protocol and port) + prefix length of the 128-bit address */
	__u16 proto; /* IPPROTO_TCP or IPPROTO_UDP, host order */
	__u16 port; /* network order */
	__u8 addr[16]; /* IPv4 as ::ffff:a.b.c.d */
};
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct dst);
	__type(value, __u8);
} plain SEC(".maps");

/* Who is in a narrow scope. */
#define W_USER 1 /* a user in it */
#define W_NOT_GROUP 2 /* a cgroup that is not, by id */
#define W_NOT_USER 3
#define W_NOT_PORT 4 /* local port of listeners whose connections are not */
struct who {
	__u64 kind, value;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct who);
	__type(value, __u8);
} who SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, C_N);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* A record of a ring. Addresses are local and remote as the socket sees them. */
struct rec {
	__u64 cookie, nonce, netns;
	__u8 laddr[16], raddr[16];
	__u32 seq, base, count, len;
	__u32 n; /* bytes in data */
	__u32 ack;
	__u32 nxt; /* rcv_nxt, of K_RELEASED and K_RETRY */
	__u32 ifindex;
	__u16 lport, rport, window; /* host order */
	__u8 kind, reason;
	__u8 data[];
};

/* The TCP option of a kick: kind 253 (RFC 4727), length, magic, then: */
#define KICK_KIND 253
#define KICK_LEN 28
#define KICK_MAGIC0 'H'
#define KICK_MAGIC1 'f'
struct kick {
	__u8 kind, len, m0, m1;
	__u32 cookie_lo, cookie_hi, nonce_lo, nonce_hi, end, examined; /* host order */
};

/* One parsed packet. */
struct pkt {
	__u8 saddr[16], daddr[16];
	__u32 seq, ack;
	__u32 off, len; /* of the payload */
	__u32 topt; /* offset of the TCP options */
	__u32 toptlen;
	__u16 sport, dport; /* network order */
	__u16 window;
	__u8 proto, flags;
};

static __always_inline void bump(__u32 i)
{
	__u64 *v = bpf_map_lookup_elem(&counters, &i);
	if (v)
		*v += 1;
}

static __always_inline __u64 rotl(__u64 x, int b) { return x << b | x >> (64 - b); }

#define SIPROUND                                                                                   \
	do {                                                                                       \
		v0 += v1; v1 = rotl(v1, 13); v1 ^= v0; v0 = rotl(v0, 32);                           \
		v2 += v3; v3 = rotl(v3, 16); v3 ^= v2;                                              \
		v0 += v3; v3 = rotl(v3, 21); v3 ^= v0;                                              \
		v2 += v1; v1 = rotl(v1, 17); v1 ^= v2; v2 = rotl(v2, 32);                           \
	} while (0)

/* siphash of three words: SipHash-2-4 under the key of this load. The kernel's
 * prandom is no secret by itself; under the key it is. */
static __always_inline __u64 siphash(__u64 a, __u64 b, __u64 c)
{
	__u64 v0 = 0x736f6d6570736575ULL ^ nonce_key0, v1 = 0x646f72616e646f6dULL ^ nonce_key1;
	__u64 v2 = 0x6c7967656e657261ULL ^ nonce_key0, v3 = 0x7465646279746573ULL ^ nonce_key1;
	__u64 m[4] = { a, b, c, 24ULL << 56 };
#pragma unroll
	for (int i = 0; i < 4; i++) {
		v3 ^= m[i];
		SIPROUND; SIPROUND;
		v0 ^= m[i];
	}
	v2 ^= 0xff;
	SIPROUND; SIPROUND; SIPROUND; SIPROUND;
	return v0 ^ v1 ^ v2 ^ v3;
}

/* parse fills p, or returns a reason. len counts only what is in the packet. */
static __always_inline __u32 parse(struct __sk_buff *skb, struct pkt *p)
{
	__u32 l4, end;
	__u8 h[40];
	__builtin_memset(p, 0, sizeof(*p));
	if (bpf_skb_load_bytes(skb, 0, h, 20) < 0)
		return R_PACKET;
	if (h[0] >> 4 == 4) {
		l4 = (h[0] & 15) * 4;
		if (l4 < 20 || (h[6] & 0x3f) || h[7]) /* a fragment, or more of them */
			return R_PACKET;
		p->proto = h[9];
		end = h[2] << 8 | h[3];
		p->saddr[10] = p->saddr[11] = p->daddr[10] = p->daddr[11] = 0xff;
		__builtin_memcpy(p->saddr + 12, h + 12, 4);
		__builtin_memcpy(p->daddr + 12, h + 16, 4);
	} else if (h[0] >> 4 == 6) {
		if (bpf_skb_load_bytes(skb, 0, h, 40) < 0)
			return R_PACKET;
		l4 = 40;
		p->proto = h[6]; /* an extension header is not TCP or UDP: refused */
		end = (h[4] << 8 | h[5]) + 40;
		__builtin_memcpy(p->saddr, h + 8, 16);
		__builtin_memcpy(p->daddr, h + 24, 16);
	} else {
		return R_PACKET;
	}
	if (p->proto != IPPROTO_TCP && p->proto != IPPROTO_UDP)
		return R_PROTOCOL;
	/* Jumbo and BIG TCP packets carry 0 in the length field. What the header
	 * does not cover TCP does not take; what it covers must be there. */
	if (end == (h[0] >> 4 == 4 ? 0 : 40))
		end = skb->len;
	if (end > skb->len)
		return R_PACKET;
	if (p->proto == IPPROTO_UDP) {
		__u8 u[8];
		if (bpf_skb_load_bytes(skb, l4, u, 8) < 0)
			return R_PACKET;
		__builtin_memcpy(&p->sport, u, 2);
		__builtin_memcpy(&p->dport, u + 2, 2);
		p->off = l4 + 8;
		p->len = end > p->off ? end - p->off : 0;
		return R_NONE;
	}
	__u8 t[20];
	if (bpf_skb_load_bytes(skb, l4, t, 20) < 0)
		return R_PACKET;
	__builtin_memcpy(&p->sport, t, 2);
	__builtin_memcpy(&p->dport, t + 2, 2);
	p->seq = (__u32)t[4] << 24 | (__u32)t[5] << 16 | (__u32)t[6] << 8 | t[7];
	p->ack = (__u32)t[8] << 24 | (__u32)t[9] << 16 | (__u32)t[10] << 8 | t[11];
	__u32 hl = (t[12] >> 4) * 4;
	if (hl < 20)
		return R_PACKET;
	p->flags = t[13];
	p->window = t[14] << 8 | t[15];
	p->topt = l4 + 20;
	p->toptlen = hl - 20;
	p->off = l4 + hl;
	if (p->off > end)
		return R_PACKET;
	p->len = end - p->off;
	return R_NONE;
}

/* listed: does the far end (address, port in network order) pass? PASS_ANY,
 * PASS_CLEAR, or 0. An entry for the port goes before one for any port. */
static __always_inline __u8 listed(__u16 proto, const __u8 *addr, __u16 port)
{
	struct dst d = { .bits = 32 + 128, .proto = proto, .port = port };
	__builtin_memcpy(d.addr, addr, 16);
	__u8 *v = bpf_map_lookup_elem(&plain, &d);
	if (v)
		return *v;
	d.port = 0;
	v = bpf_map_lookup_elem(&plain, &d);
	return v ? *v : 0;
}

static __always_inline void head(struct __sk_buff *skb, struct pkt *p, struct conn *c, struct rec *r, int egress)
{
	r->cookie = bpf_get_socket_cookie(skb);
	r->nonce = c->nonce;
	r->netns = have_netns_cookie ? bpf_get_netns_cookie(skb) : 0;
	r->ifindex = skb->ifindex;
	__builtin_memcpy(r->laddr, egress ? p->saddr : p->daddr, 16);
	__builtin_memcpy(r->raddr, egress ? p->daddr : p->saddr, 16);
	r->lport = bpf_ntohs(egress ? p->sport : p->dport);
	r->rport = bpf_ntohs(egress ? p->dport : p->sport);
	r->seq = p->seq;
	r->ack = p->ack;
	r->window = p->window;
	r->base = egress ? c->hello : c->base;
	r->count = r->n = r->nxt = 0;
	r->len = p->len;
	r->kind = r->reason = 0;
}

/* note sends a record without data. */
static __always_inline int note(struct __sk_buff *skb, struct pkt *p, struct conn *c, void *ring, int egress, __u8 kind, __u8 reason, __u32 nxt)
{
	struct rec *r = bpf_ringbuf_reserve(ring, sizeof(*r), 0);
	if (!r)
		return -1;
	head(skb, p, c, r, egress);
	r->kind = kind;
	r->reason = reason;
	r->nxt = nxt;
	bpf_ringbuf_submit(r, wakeup(ring));
	return 0;
}

/* deny counts, tells the gate once per reason and connection, and keeps it in. */
static __noinline int deny(struct __sk_buff *skb, struct pkt *p, struct conn *c, int egress, __u32 reason)
{
	bump(reason);
	__u32 bit = 1u << reason;
	if (!(c->told & bit) && note(skb, p, c, &ring_out, egress, K_DENIED, reason, 0) == 0)
		c->told |= bit;
	return 0;
}

/* load copies n bytes at off of the packet, if 0 < n <= max; max is a constant.
 * Linux 6.1's verifier learns nothing from n != 0 and takes a size of 0 for an
 * error, and the compiler would make "n > 0 && n <= max" into a comparison of
 * n - 1 while it passes an n that nothing bounds. So n - 1 it is, in 64 bits,
 * and the empty asm keeps the compiler from going back to n. */
static __always_inline int load(struct __sk_buff *skb, __u32 off, void *to, __u64 n, __u64 max)
{
	n--;
	asm volatile("" : "+r"(n));
	if (n >= max)
		return -1;
	asm volatile("" : "+r"(n));
	return bpf_skb_load_bytes(skb, off, to, n + 1);
}

/* FILL reserves a record with room for max bytes and copies n payload bytes. */
#define FILL(ring, max, from, bytes, egress, knd, cnt)                              \
	({                                                                          \
		int _ok = -1;                                                       \
		struct rec *_r = bpf_ringbuf_reserve(ring, sizeof(*_r) + (max), 0); \
		if (_r) {                                                           \
			__u64 _n = (bytes);                                         \
			head(skb, p, c, _r, egress);                                \
			_r->kind = knd;                                             \
			_r->count = cnt;                                            \
			if (load(skb, from, _r->data, _n, max) == 0) {              \
				_r->n = _n;                                         \
				_ok = 0;                                            \
			} else {                                                    \
				_r->kind = 0; /* not a copy: the reader skips it */ \
			}                                                           \
			bpf_ringbuf_submit(_r, wakeup(ring));                       \
		}                                                                   \
		_ok;                                                                \
	})

static __always_inline int copy_out(struct __sk_buff *skb, struct pkt *p, struct conn *c)
{
	if (p->len <= 512)
		return FILL(&ring_out, 512, p->off, p->len, 1, K_OUTBOUND, 0);
	if (p->len <= 2048)
		return FILL(&ring_out, 2048, p->off, p->len, 1, K_OUTBOUND, 0);
	return FILL(&ring_out, MAX_HELLO, p->off, p->len, 1, K_OUTBOUND, 0);
}

static __always_inline int copy_in(struct __sk_buff *skb, struct pkt *p, struct conn *c, __u32 n, __u32 count)
{
	if (n <= 512)
		return FILL(&ring_in, 512, p->off, n, 0, K_INBOUND, count);
	if (n <= 1536)
		return FILL(&ring_in, 1536, p->off, n, 0, K_INBOUND, count);
	return FILL(&ring_in, WINDOW, p->off, n, 0, K_INBOUND, count);
}

/* mptcp: does a SYN carry option 30, or options that cannot be read? [f] */
static __always_inline int mptcp(struct __sk_buff *skb, struct pkt *p)
{
	__u8 o[64] = {}; /* 64, so that a masked index is within it */
	__u64 n = p->toptlen;
	if (n == 0)
		return 0;
	if (load(skb, p->topt, o, n, 40) < 0)
		return 1;
	__u32 i = 0;
	for (int k = 0; k < 40; k++) {
		if (i >= n || i >= 39)
			return 0;
		__u8 kind = o[i & 63];
		if (kind == 0)
			return 0;
		if (kind == 30)
			return 1;
		if (kind == 1) {
			i++;
			continue;
		}
		__u32 l = o[(i + 1) & 63];
		if (l < 2)
			return 1;
		i += l;
	}
	return 0;
}

/* hello_at: is there the head of a record at off that holds exactly one
 * ClientHello? Returns the record's length with its header, or 0. */
static __always_inline __u32 hello_at(struct __sk_buff *skb, __u32 off)
{
	__u8 h[11];
	if (bpf_skb_load_bytes(skb, off, h, 11) < 0)
		return 0;
	__u32 rec = h[3] << 8 | h[4], msg = (__u32)h[6] << 16 | h[7] << 8 | h[8];
	if (h[0] != 0x16 || h[1] != 3 || h[2] > 4 || h[5] != 1 || msg + 4 != rec || h[9] != 3)
		return 0;
	return rec + 5;
}

/* first_hello: the first payload of a connection, at isn+1. */
static __always_inline int first_hello(struct __sk_buff *skb, struct bpf_sock *sk, struct pkt *p, struct conn *c)
{
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	if (!tp)
		return deny(skb, p, c, 1, R_PROTOCOL);
	if (!c->syn || p->seq != c->isn + 1)
		return deny(skb, p, c, 1, R_NOT_FROM_SYN);
	if (tp->bytes_received != 0)
		return deny(skb, p, c, 1, R_SERVER_FIRST);
	if (p->len < 11) { /* TCP keeps it and sends it again with more behind it */
		__u8 h[2] = {};
		if (bpf_skb_load_bytes(skb, p->off, h, 1) < 0 || h[0] != 0x16)
			return deny(skb, p, c, 1, R_NOT_TLS);
		if (p->len > 1 && bpf_skb_load_bytes(skb, p->off, h, 2) == 0 && h[1] != 3)
			return deny(skb, p, c, 1, R_NOT_TLS);
		bump(C_HELD);
		return 0;
	}
	__u32 len = hello_at(skb, p->off);
	if (!len)
		return deny(skb, p, c, 1, R_NOT_TLS);
	if (len > MAX_HELLO)
		return deny(skb, p, c, 1, R_TOO_LONG);
	if (p->len > len)
		return deny(skb, p, c, 1, R_EARLY_BYTES);
	__u64 door = c->door;
	if ((__u32)door != S_NEW)
		return 0;
	c->hello = p->seq;
	c->base = tp->rcv_nxt;
	c->count = 0;
	if (copy_out(skb, p, c) < 0) { /* nothing has left, nothing is lost: TCP tries again */
		bump(R_LOST_COPY);
		return 0;
	}
	c->copied = p->seq + p->len;
	c->end = p->seq + len;
	__u64 hello = (door & ~0xffffffffULL) | S_HELLO;
	if (__sync_val_compare_and_swap(&c->door, door, hello) != door)
		return 0;
	/* Ingress sets early and then looks at door; here it is the other way
	 * round, so no segment slips between the two unseen. */
	if (__sync_fetch_and_add(&c->early, 0)) {
		__sync_val_compare_and_swap(&c->door, hello, (door & ~0xffffffffULL) | S_POISON);
		return deny(skb, p, c, 1, R_SERVER_FIRST);
	}
	bump(C_HELLO);
	return 1;
}

/* clear_start: does the first payload to a PASS_CLEAR destination begin unlike
 * a TLS record? Then the connection is none of the gate's business. */
static __always_inline int clear_start(struct __sk_buff *skb, struct pkt *p, struct conn *c)
{
	__u8 h[2] = {};
	if (p->seq != c->isn + 1 || bpf_skb_load_bytes(skb, p->off, h, 1) < 0)
		return 0;
	if (h[0] != 0x16)
		return 1;
	return p->len >= 2 && bpf_skb_load_bytes(skb, p->off, h, 2) == 0 && h[1] != 3;
}

/* second_hello: after the first one and an answer of the server, one more may
 * follow (HelloRetryRequest), with one change_cipher_spec before it. */
static __always_inline int second_hello(struct __sk_buff *skb, struct pkt *p, struct conn *c)
{
	__u8 h[6];
	__u32 skip = 0, len;
	if (c->count == 0 || c->second == 2 || p->seq != c->end || c->copied != c->end)
		goto held;
	if (bpf_skb_load_bytes(skb, p->off, h, 6) < 0)
		goto held;
	if (c->second == 0 && h[0] == 0x14) {
		if (h[1] != 3 || h[2] != 3 || h[3] || h[4] != 1 || h[5] != 1)
			goto held;
		skip = 6;
		if (p->len == 6) { /* Go sends it alone. It reveals nothing. */
			if (copy_out(skb, p, c) < 0)
				goto lost;
			c->second = 1;
			c->copied = c->end = p->seq + 6;
			return 1;
		}
	}
	if (p->len < skip + 11)
		goto held;
	len = hello_at(skb, p->off + skip);
	if (!len || len > MAX_HELLO - 6 || p->len > skip + len)
		goto held;
	if (copy_out(skb, p, c) < 0)
		goto lost;
	c->second = 2;
	c->copied = p->seq + p->len;
	c->end = p->seq + skip + len;
	bump(C_HELLO2);
	return 1;
held:
	bump(C_HELD);
	return 0;
lost:
	bump(R_LOST_COPY);
	return 0;
}

static __always_inline int has(__u64 kind, __u64 value)
{
	struct who k = { .kind = kind, .value = value };
	return bpf_map_lookup_elem(&who, &k) != 0;
}

/* outside: is the socket not in this narrow scope? */
static __noinline int outside(struct __sk_buff *skb)
{
	if (only_netns && bpf_get_netns_cookie(skb) != only_netns)
		return 1;
	__u32 uid = bpf_get_socket_uid(skb);
	if (by_user && !has(W_USER, uid))
		return 1;
	if (has(W_NOT_USER, uid))
		return 1;
#pragma unroll
	for (int level = 1; level <= 8; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);
		if (!id)
			break;
		if (has(W_NOT_GROUP, id))
			return 1;
	}
	return 0;
}

static __always_inline void leave(struct conn *c, __u64 door)
{
	c->scope = scope_id;
	__sync_val_compare_and_swap(&c->door, door, (door & ~0xffffffffULL) | S_OUTSIDE);
}

/* kernels_own: what the kernel sends by sockets of its own, which may belong to
 * this cgroup because a process here made the network namespace: resets and
 * acknowledgements, errors, neighbour discovery, multicast listeners. Without it
 * such a namespace has no IPv6. A program needs CAP_NET_RAW for the like, and
 * with that it has packet sockets, which no cgroup program sees. */
static __always_inline int kernels_own(struct __sk_buff *skb, struct bpf_sock *sk, struct pkt *p, __u32 why)
{
	__u8 h[2], t = 0;
	if (sk->type != SOCK_RAW)
		return 0;
	if (why == R_NONE)
		return narrow && p->proto == IPPROTO_TCP && sk->protocol == IPPROTO_TCP && p->len == 0 && !(p->flags & TCP_SYN);
	if (why != R_PROTOCOL || bpf_skb_load_bytes(skb, 0, h, 1) < 0)
		return 0;
	if (h[0] >> 4 == 4) {
		if (p->proto == 2) /* IGMP */
			return 1;
		if (p->proto != 1 || bpf_skb_load_bytes(skb, (h[0] & 15) * 4, &t, 1) < 0)
			return 0;
		return t == 3 || t == 5 || t == 11 || t == 12;
	}
	if (p->proto == 0) { /* hop-by-hop options before a listener report */
		if (bpf_skb_load_bytes(skb, 40, h, 2) < 0 || h[0] != 58 || h[1] != 0 || bpf_skb_load_bytes(skb, 48, &t, 1) < 0)
			return 0;
		return (t >= 130 && t <= 132) || t == 143;
	}
	if (p->proto != 58 || bpf_skb_load_bytes(skb, 40, &t, 1) < 0)
		return 0;
	return (t >= 1 && t <= 4) || (t >= 130 && t <= 137) || t == 143;
}

SEC("cgroup_skb/egress") int hold_egress(struct __sk_buff *skb)
{
	struct pkt p;
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c)
		return 0;
	__u64 door = c->door;
	if ((__u32)door == S_OPEN && sk->state != BPF_TCP_SYN_SENT)
		return 1;
	if (narrow) {
		if ((__u32)door == S_OUTSIDE && c->scope == scope_id && sk->state != BPF_TCP_SYN_SENT)
			return 1;
		if (outside(skb)) {
			leave(c, door);
			return 1;
		}
	}
	__u32 why = parse(skb, &p);
	if (sk->type == SOCK_RAW && kernels_own(skb, sk, &p, why))
		return 1;
	if (why)
		return deny(skb, &p, c, 1, why);
	if (narrow && p.proto == IPPROTO_TCP && sk->type == SOCK_STREAM && !c->syn && sk->state != BPF_TCP_SYN_SENT && has(W_NOT_PORT, bpf_ntohs(p.sport))) {
		leave(c, door);
		return 1;
	}
	if ((__u32)door == S_OUTSIDE) { /* of an earlier scope: now it is inside */
		__u64 fresh = door & ~0xffffffffULL;
		if (__sync_val_compare_and_swap(&c->door, door, fresh) == door)
			door = fresh;
	}
	if (p.proto != sk->protocol) /* a raw socket that writes its own headers */
		return deny(skb, &p, c, 1, R_PROTOCOL);
	__u8 pass = listed(p.proto, p.daddr, p.dport);
	if (pass == PASS_ANY)
		return 1;
	if (p.proto == IPPROTO_UDP)
		return deny(skb, &p, c, 1, R_UDP);
	if (sk->type != SOCK_STREAM)
		return deny(skb, &p, c, 1, R_PROTOCOL);

	if ((p.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) { /* a new connection [c] */
		c->nonce = siphash(bpf_get_socket_cookie(skb), bpf_ktime_get_ns(), (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32());
		c->isn = p.seq;
		c->syn = 1;
		c->hello = p.seq + 1;
		c->copied = c->end = c->second = c->base = c->count = c->told = c->early = 0;
		__sync_lock_test_and_set(&c->door, ((door >> 32) + 1) << 32 | S_NEW);
		if (p.len)
			return deny(skb, &p, c, 1, R_SYN_DATA);
		if (mptcp(skb, &p))
			return deny(skb, &p, c, 1, R_MPTCP);
		return 1;
	}
	if (p.flags & TCP_RST)
		return p.len == 0;
	if (p.len == 0) {
		/* A FIN stays behind the data before it. */
		if ((p.flags & TCP_FIN) && (__u32)door != S_PLAIN && (c->syn || pass != PASS_CLEAR) && (__s32)(p.seq - (((__u32)door == S_NEW) ? c->hello : c->end)) > 0) {
			bump(C_STRAY_FIN);
			return 0;
		}
		return 1;
	}
	if ((__u32)door == S_POISON)
		return deny(skb, &p, c, 1, R_LOST_COPY);
	if (pass == PASS_CLEAR && (!c->syn || (__u32)door == S_PLAIN))
		return 1; /* as far as is known it never began like TLS */
	if ((__u32)door == S_PLAIN)
		return deny(skb, &p, c, 1, R_NOT_TLS); /* no longer listed */
	if ((__u32)door == S_NEW) {
		if (pass == PASS_CLEAR && clear_start(skb, &p, c))
			return __sync_val_compare_and_swap(&c->door, door, (door & ~0xffffffffULL) | S_PLAIN) == door;
		return first_hello(skb, sk, &p, c);
	}

	/* S_HELLO: a retransmission of what was copied, or the rest of a hello */
	__u32 last = p.seq + p.len;
	if ((__s32)(p.seq - c->hello) >= 0 && (__s32)(last - c->end) <= 0) {
		if ((__s32)(last - c->copied) <= 0)
			return 1;
		if ((__s32)(p.seq - c->copied) > 0)
			return 0; /* a gap: TCP sends in order */
		if (copy_out(skb, &p, c) < 0) {
			bump(R_LOST_COPY);
			return 0;
		}
		c->copied = last;
		return 1;
	}
	return second_hello(skb, &p, c);
}

/* open_door checks a kick. The order of its reads matters [a]. */
static __always_inline int open_door(struct __sk_buff *skb, struct bpf_sock *sk, struct pkt *p, struct conn *c)
{
	struct kick k;
	if (p->len != 0 || p->flags != TCP_ACK || p->toptlen != KICK_LEN || bpf_skb_load_bytes(skb, p->topt, &k, sizeof(k)) < 0)
		goto wrong;
	if (k.kind != KICK_KIND || k.len != KICK_LEN || k.m0 != KICK_MAGIC0 || k.m1 != KICK_MAGIC1)
		goto wrong;
	__u64 door = c->door;
	__u64 cookie = (__u64)k.cookie_hi << 32 | k.cookie_lo, nonce = (__u64)k.nonce_hi << 32 | k.nonce_lo;
	if (cookie != bpf_get_socket_cookie(skb) || nonce != c->nonce || !nonce)
		goto wrong;
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	if (!tp)
		goto wrong;
	/* rcv_nxt before count: whatever TCP took up to here was counted before
	 * TCP saw it; whatever comes later cannot replace bytes below rcv_nxt. */
	__u32 nxt = tp->rcv_nxt;
	asm volatile("" ::: "memory");
	__u32 count = __sync_fetch_and_add(&c->count, 0);
	if ((__u32)door == S_OPEN) { /* again, since an earlier kick did not fit rcv_nxt */
		note(skb, p, c, &ring_in, 0, K_RELEASED, R_NONE, nxt);
		return 1;
	}
	if ((__u32)door != S_HELLO || (__s32)(k.end - c->base) <= 0 || (__s32)(k.end - c->base) > WINDOW || c->copied != c->end)
		goto wrong;
	if ((__s32)(nxt - k.end) < 0) {
		bump(R_NOT_TAKEN);
		note(skb, p, c, &ring_in, 0, K_RETRY, R_NOT_TAKEN, nxt);
		return 0;
	}
	if (count != k.examined) {
		bump(R_UNEXAMINED);
		note(skb, p, c, &ring_in, 0, K_RETRY, R_UNEXAMINED, nxt);
		return 0;
	}
	if (__sync_val_compare_and_swap(&c->door, door, (door & ~0xffffffffULL) | S_OPEN) != door)
		goto wrong;
	bump(C_RELEASED);
	note(skb, p, c, &ring_in, 0, K_RELEASED, R_NONE, nxt);
	return 1;
wrong:
	bump(R_WRONG_KICK);
	return 0;
}

SEC("cgroup_skb/ingress") int hold_ingress(struct __sk_buff *skb)
{
	struct pkt p;
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	if (sk->protocol != IPPROTO_TCP || sk->type != SOCK_STREAM)
		return 1; /* nothing leaves by it: egress refuses */
	struct conn *c = bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c)
		return 0;
	__u64 door = c->door;
	if ((__u32)door == S_OPEN && skb->mark != kick_mark)
		return 1;
	if (narrow) {
		if ((__u32)door == S_OUTSIDE && c->scope == scope_id)
			return 1;
		if (outside(skb)) {
			leave(c, door);
			return 1;
		}
	}
	if (parse(skb, &p) != R_NONE || p.proto != IPPROTO_TCP)
		return 0; /* not understood: TCP must not see it either */
	if (skb->mark == kick_mark)
		return open_door(skb, sk, &p, c);
	if (narrow && !c->syn && sk->state != BPF_TCP_SYN_SENT && has(W_NOT_PORT, bpf_ntohs(p.dport))) {
		if (sk->state != BPF_TCP_LISTEN)
			leave(c, door);
		return 1;
	}
	if ((__u32)door == S_OUTSIDE)
		door &= ~0xffffffffULL;
	__u8 pass = listed(IPPROTO_TCP, p.saddr, p.sport);
	if (pass == PASS_CLEAR && ((__u32)door == S_PLAIN || !c->syn))
		pass = PASS_ANY;
	if ((p.flags & TCP_URG) && pass != PASS_ANY) {
		/* TCP takes urgent bytes out of what the program reads, so that it would
		 * read other bytes than those examined. The pointer alone, on a segment
		 * without payload, does that to a later one. After the release it cannot
		 * point at what TCP has taken before. */
		if (c->syn)
			deny(skb, &p, c, 0, R_URGENT);
		return 0;
	}
	if (p.len == 0 || pass == PASS_ANY)
		return 1;
	if ((__u32)door == S_NEW && pass == PASS_CLEAR) {
		/* The server of a clear protocol may speak first; TLS cannot follow. */
		__sync_lock_test_and_set(&c->early, 1);
		return (__u32)__sync_fetch_and_add(&c->door, 0) == S_NEW;
	}
	if ((__u32)door == S_NEW) {
		/* Before the hello: dropped, so that base is where the stream begins. */
		struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
		if (sk->state == BPF_TCP_LISTEN)
			bump(R_NOT_FROM_SYN); /* the gate must not reset the listener */
		else if (!c->syn)
			deny(skb, &p, c, 0, R_NOT_FROM_SYN);
		else if (tp && sk->state == BPF_TCP_ESTABLISHED && tp->rcv_nxt == p.seq)
			deny(skb, &p, c, 0, R_SERVER_FIRST);
		return 0;
	}
	if ((__u32)door == S_POISON) {
		deny(skb, &p, c, 0, R_LOST_COPY);
		return 0;
	}
	/* A full barrier: base is that of the generation just read. */
	door = __sync_fetch_and_add(&c->door, 0);
	if ((__u32)door != S_HELLO)
		return 0;
	__s32 from = p.seq - c->base; /* may be negative: TCP cuts off what is old */
	__s32 to = from + (__s32)p.len;
	if (to <= 0 || from >= WINDOW)
		return 1;
	__u32 count = __sync_fetch_and_add(&c->count, 1) + 1; /* before TCP sees it [a] */
	if (from < 0) { /* starts before the stream: TCP cuts that off, and so does the copy */
		p.off -= from;
		p.len += from;
		p.seq = c->base;
		from = 0;
	}
	__u32 n = to > WINDOW ? WINDOW - from : p.len; /* no more than the window */
	bump(C_INBOUND);
	if (copy_in(skb, &p, c, n, count) < 0) {
		/* [b] Only the generation that lost the copy is poisoned. */
		__sync_val_compare_and_swap(&c->door, door, (door & ~0xffffffffULL) | S_POISON);
		deny(skb, &p, c, 0, R_LOST_COPY);
		return 0;
	}
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
