// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The observer of a server: sees the ServerHello of each connection of a
// protected listener, the ClientHello that it answers, who made the listener,
// and every ServerHello that enters the machine. It never delays or changes a
// packet: every program returns 1.
//
//   post_bind4/6  process context: who binds a protected port; kept in the
//                 socket's storage, which accepted sockets inherit (F_CLONE)
//   sock_release  the listener is gone
//   sockops       an accepted connection starts (its sequence numbers) or
//                 leaves ESTABLISHED
//   egress        copies the first record of an accepted connection, if it is
//                 a ServerHello; all of the first 8 KiB after a retry request
//   ingress       copies what accepted connections receive until then; and, on
//                 any other TCP socket, what arrives as a ServerHello
//
// Concurrency: egress and sockops of one socket run under the socket lock,
// ingress without it and on several CPUs at once. Ingress only reads state and
// adds to in_bytes; lost is only ever set.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IPPROTO_TCP 6
#define SOCK_STREAM 1
#define TCP_SYN 2

#define HEAD 43 /* record header, message header, version, random */
#define RECORD_MAX (5 + 16384)
#define RETRY_MAX 8192 /* of the server's stream, when it began with a retry request or in small pieces */
#define IN_MAX 65536 /* of the client's stream, before the ServerHello */
#define WATCH_MAX 8192 /* of an inbound stream that begins like a ServerHello */

/* state of an accepted connection */
#define S_NONE 0 /* listener, or not accepted */
#define S_OPEN 1 /* established, the server has said nothing */
#define S_HELLO 2 /* a ServerHello leaves, its record is not complete */
#define S_RETRY 3 /* copy all */
#define S_DONE 4

/* kinds of record: keep in step with ../record.go */
#define K_BOUND 1
#define K_UNBOUND 2
#define K_IN 3
#define K_OUT 4
#define K_CLOSED 5
#define K_LISTENER_IN 6
#define K_WATCH 7

#define F_LOST 1 /* a copy of this connection was lost before */
#define F_ENDS 2 /* the copied stream ends here: nothing later is copied */

struct conn {
	__u64 listener; /* cookie of the socket that was bound */
	__u64 bound_ns; /* boot time of bind */
	__u64 cgroup; /* of the creator, at bind */
	__u64 netns; /* cookie */
	__u32 tgid, uid; /* of the creator */
	__u32 in_base, out_base; /* sequence numbers of the first bytes */
	__u32 in_bytes;
	__u32 out_need; /* offset at which copying ends */
	__u8 state, lost, origin, pad[5];
};

struct watch {
	__u32 base, pad;
};

struct rec {
	__u64 cookie;
	__u64 listener;
	__u8 local[16], remote[16];
	__u32 seq, base;
	__u32 len; /* payload of the packet */
	__u32 n; /* of it copied behind this header */
	__u16 lport, rport;
	__u8 kind, flags, pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct watch);
} watches SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u16);
	__type(value, __u8);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

/* shared with user space by mmap: keep in step with ../ring_unsafe_linux.go */
struct ctl {
	__u32 armed; /* user space sleeps and wants to hear of a ServerHello */
	__u32 full; /* user space sleeps and wants to hear when the ring fills up */
	__u64 lost; /* copies of accepted connections */
	__u64 watch_lost; /* copies of foreign hellos */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ctl);
} ctl SEC(".maps");

const volatile __u32 ring_quarter = 4 << 20;

static __always_inline struct ctl *control(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&ctl, &zero);
}

/* Wake user space once per time that it armed itself. The exchange is a full
 * barrier: either we see armed, or user space, which arms itself before it
 * looks, sees the record that was reserved before. */
static __always_inline __u64 wakeup(int want)
{
	struct ctl *c = control();
	if (!c)
		return BPF_RB_NO_WAKEUP;
	if (want && __sync_lock_test_and_set(&c->armed, 0))
		return BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_quarter && __sync_lock_test_and_set(&c->full, 0))
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

struct pkt {
	__u8 src[16], dst[16];
	__u32 seq, off, len; /* payload */
	__u16 sport, dport;
	__u8 flags; /* of TCP */
	/* what copy() needs */
	__u8 kind, mark, want; /* mark: F_ flags; want: wake user space */
	__u32 base, n; /* sequence number of the stream's first byte; bytes to copy */
	__u64 cookie, listener;
};

static __always_inline int parse(struct __sk_buff *skb, struct pkt *p)
{
	__u8 h[40], t[20];
	__u32 at;

	if (skb->protocol == bpf_htons(0x0800)) {
		if (bpf_skb_load_bytes(skb, 0, h, 20) < 0 || h[9] != IPPROTO_TCP)
			return -1;
		at = (h[0] & 15) * 4;
		__builtin_memset(p->src, 0, 10);
		__builtin_memset(p->dst, 0, 10);
		p->src[10] = p->src[11] = p->dst[10] = p->dst[11] = 0xff;
		__builtin_memcpy(p->src + 12, h + 12, 4);
		__builtin_memcpy(p->dst + 12, h + 16, 4);
	} else {
		if (bpf_skb_load_bytes(skb, 0, h, 40) < 0)
			return -1;
		at = 40;
		/* Extension headers, which TCP does not see (RFC 8200, section 4). */
		__u8 next = h[6];
		for (int i = 0; i < 8 && next != IPPROTO_TCP; i++) {
			__u8 e[2];
			if (bpf_skb_load_bytes(skb, at, e, 2) < 0)
				return -1;
			if (next == 44) /* a fragment that is whole: 8 bytes */
				at += 8;
			else if (next == 0 || next == 43 || next == 60)
				at += 8 + e[1] * 8;
			else
				return -1;
			next = e[0];
		}
		if (next != IPPROTO_TCP)
			return -1;
		__builtin_memcpy(p->src, h + 8, 16);
		__builtin_memcpy(p->dst, h + 24, 16);
	}
	if (bpf_skb_load_bytes(skb, at, t, 20) < 0)
		return -1;
	p->sport = t[0] << 8 | t[1];
	p->dport = t[2] << 8 | t[3];
	p->seq = (__u32)t[4] << 24 | t[5] << 16 | t[6] << 8 | t[7];
	p->flags = t[13];
	p->off = at + (t[12] >> 4) * 4;
	p->len = skb->len > p->off ? skb->len - p->off : 0;
	return 0;
}

static __always_inline void fill(struct rec *r, struct pkt *p)
{
	r->cookie = p->cookie;
	r->listener = p->listener;
	r->seq = p->seq;
	r->base = p->base;
	r->len = p->len;
	r->n = p->n;
	r->kind = p->kind;
	r->flags = p->mark;
	r->pad[0] = r->pad[1] = 0;
	if (p->kind == K_OUT) {
		__builtin_memcpy(r->local, p->src, 16);
		__builtin_memcpy(r->remote, p->dst, 16);
		r->lport = p->sport;
		r->rport = p->dport;
	} else {
		__builtin_memcpy(r->local, p->dst, 16);
		__builtin_memcpy(r->remote, p->src, 16);
		r->lport = p->dport;
		r->rport = p->sport;
	}
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

/* COPY(size): a record with room for size bytes. */
#define COPY(size)                                                 \
	do {                                                       \
		struct {                                           \
			struct rec r;                              \
			__u8 data[size];                           \
		} *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);  \
		if (!e)                                            \
			return -1;                                 \
		fill(&e->r, p);                                    \
		if (load(skb, p->off, e->data, p->n, size) == 0) { \
			bpf_ringbuf_submit(e, wakeup(p->want));    \
			return 0;                                  \
		}                                                  \
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);          \
		return -1;                                         \
	} while (0)

/* Copies the first n payload bytes; -1: lost. Three sizes: an X25519 hello, a
 * hybrid one, anything that the parsers take. */
static __noinline int copy(struct __sk_buff *skb, struct pkt *p)
{
	if (p->n <= 320)
		COPY(320);
	if (p->n <= 1792)
		COPY(1792);
	if (p->n > 16640)
		p->n = 16640;
	COPY(16640);
}

static __always_inline int bound(struct bpf_sock *ctx, int v6)
{
	__u16 port = ctx->src_port;
	if (ctx->type != SOCK_STREAM || !bpf_map_lookup_elem(&ports, &port))
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, ctx, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!s)
		return 1; /* no storage, no observation: nothing is attested */
	__builtin_memset(s, 0, sizeof(*s));
	s->listener = bpf_get_socket_cookie(ctx);
	s->bound_ns = bpf_ktime_get_boot_ns();
	s->cgroup = bpf_get_current_cgroup_id();
	s->netns = bpf_get_netns_cookie(ctx);
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	s->uid = bpf_get_current_uid_gid();
	struct {
		struct rec r;
		struct conn c;
	} *e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e)
		return 1;
	__builtin_memset(&e->r, 0, sizeof(e->r));
	e->r.cookie = e->r.listener = s->listener;
	e->r.kind = K_BOUND;
	e->r.lport = port;
	e->r.n = sizeof(e->c);
	if (v6) {
		__u32 a[4] = {ctx->src_ip6[0], ctx->src_ip6[1], ctx->src_ip6[2], ctx->src_ip6[3]};
		__builtin_memcpy(e->r.local, a, 16);
	} else {
		__u32 a = ctx->src_ip4;
		e->r.local[10] = e->r.local[11] = 0xff;
		__builtin_memcpy(e->r.local + 12, &a, 4);
	}
	__builtin_memcpy(&e->c, s, sizeof(e->c));
	bpf_ringbuf_submit(e, wakeup(1));
	return 1;
}

SEC("cgroup/post_bind4") int post_bind4(struct bpf_sock *ctx) { return bound(ctx, 0); }
SEC("cgroup/post_bind6") int post_bind6(struct bpf_sock *ctx) { return bound(ctx, 1); }

static __always_inline void note(__u64 cookie, __u64 listener, int kind)
{
	struct rec *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r)
		return;
	__builtin_memset(r, 0, sizeof(*r));
	r->cookie = cookie;
	r->listener = listener;
	r->kind = kind;
	bpf_ringbuf_submit(r, wakeup(0));
}

SEC("cgroup/sock_release") int sock_release(struct bpf_sock *ctx)
{
	if (ctx->type != SOCK_STREAM)
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, ctx, 0, 0);
	if (s && s->state == S_NONE && s->listener == bpf_get_socket_cookie(ctx))
		note(s->listener, s->listener, K_UNBOUND);
	return 1;
}

SEC("sockops") int sock_ops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	if (!sk || (ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_STATE_CB))
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!s)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		s->in_base = ctx->rcv_nxt;
		s->out_base = ctx->snd_nxt;
		s->in_bytes = 0;
		s->lost = 0;
		s->state = S_OPEN;
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		return 1;
	}
	if (ctx->args[0] == BPF_TCP_ESTABLISHED && s->state != S_NONE && (s->in_bytes || s->state != S_OPEN))
		note(bpf_get_socket_cookie(ctx), s->listener, K_CLOSED);
	return 1;
}

static __always_inline void lose(struct conn *s)
{
	struct ctl *c = control();
	s->lost = 1;
	if (c)
		__sync_fetch_and_add(&c->lost, 1);
}

SEC("cgroup_skb/egress") int egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!s || s->state == S_NONE || s->state == S_DONE)
		return 1;
	struct pkt p;
	__builtin_memset(&p, 0, sizeof(p));
	if (parse(skb, &p) < 0) {
		lose(s);
		return 1;
	}
	if (!p.len)
		return 1;
	__u32 off = p.seq - s->out_base;
	if (s->state == S_OPEN) {
		__u8 b[HEAD];
		if (off) { /* what came before was not seen */
			s->state = S_DONE;
			return 1;
		}
		if (p.len < HEAD) { /* cannot tell yet: copy all */
			s->state = S_RETRY;
			s->out_need = RETRY_MAX;
		} else {
			if (bpf_skb_load_bytes(skb, p.off, b, HEAD) < 0) {
				lose(s);
				return 1;
			}
			__u32 need = 5 + (b[3] << 8 | b[4]);
			if (b[0] != 0x16 || b[5] != 2 || need > RECORD_MAX) {
				s->state = S_DONE; /* not TLS, or an alert */
				return 1;
			}
			if (b[11] == 0xcf && b[12] == 0x21 && b[13] == 0xad && b[14] == 0x74) {
				s->state = S_RETRY; /* random of HelloRetryRequest, RFC 8446 section 4.1.3 */
				s->out_need = RETRY_MAX;
			} else {
				s->state = S_HELLO;
				s->out_need = need;
			}
		}
	}
	if (off >= s->out_need)
		return 1; /* also what lies before the base */
	int ends = off + p.len >= s->out_need;
	p.kind = K_OUT;
	p.mark = (ends ? F_ENDS : 0) | (s->lost ? F_LOST : 0);
	p.want = ends || s->state == S_RETRY;
	p.base = s->out_base;
	p.n = ends ? s->out_need - off : p.len;
	p.cookie = bpf_get_socket_cookie(skb);
	p.listener = s->listener;
	if (copy(skb, &p) < 0)
		lose(s);
	if (ends)
		s->state = S_DONE;
	return 1;
}

/* A TCP socket that is not an accepted one of a protected listener: does a
 * ServerHello come in? Only the beginning of the stream is looked at. */
static __always_inline int foreign(struct __sk_buff *skb, struct bpf_sock *sk)
{
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	if (!tp || tp->bytes_received >= WATCH_MAX)
		return 1;
	struct watch *w = bpf_sk_storage_get(&watches, sk, 0, 0);
	if (!w && tp->bytes_received)
		return 1; /* it did not begin like one */
	__u32 next = tp->rcv_nxt;
	struct pkt p;
	__builtin_memset(&p, 0, sizeof(p));
	if (parse(skb, &p) < 0)
		goto lost; /* TCP may read what we cannot */
	if (!p.len)
		return 1;
	if (p.flags & TCP_SYN) { /* TCP Fast Open takes what comes with the peer's SYN */
		if (sk->state == BPF_TCP_LISTEN)
			return 1;
		next = ++p.seq;
	}
	int whole = 0;
	if (!w) {
		__u8 b[HEAD];
		if (p.seq == next && p.len >= 6) {
			if (bpf_skb_load_bytes(skb, p.off, b, 6) < 0)
				return 1;
			if (b[0] != 0x16 || b[5] != 2)
				return 1;
			whole = p.len >= HEAD && p.len >= 5u + (b[3] << 8 | b[4]) &&
				bpf_skb_load_bytes(skb, p.off, b, HEAD) == 0 && !(b[11] == 0xcf && b[12] == 0x21 && b[13] == 0xad && b[14] == 0x74);
			if (whole)
				p.len = 5u + (b[3] << 8 | b[4]);
		} else if (p.seq == next) {
			if (bpf_skb_load_bytes(skb, p.off, b, 1) < 0 || b[0] != 0x16)
				return 1;
		}
		if (!whole) { /* in pieces, or out of order: follow the stream */
			struct watch init = {.base = next};
			w = bpf_sk_storage_get(&watches, sk, &init, BPF_SK_STORAGE_GET_F_CREATE);
		}
	}
	p.base = w ? w->base : next;
	if ((__s32)(p.seq - p.base) >= WATCH_MAX)
		return 1;
	p.n = p.len < WATCH_MAX ? p.len : WATCH_MAX;
	p.kind = K_WATCH;
	p.mark = whole ? F_ENDS : 0;
	p.cookie = bpf_get_socket_cookie(skb);
	if ((whole || w) && copy(skb, &p) == 0)
		return 1;
	struct ctl *c;
lost:
	c = control();
	if (c)
		__sync_fetch_and_add(&c->watch_lost, 1);
	return 1;
}

SEC("cgroup_skb/ingress") int ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!s)
		return foreign(skb, sk);
	if (s->state == S_DONE)
		return 1;
	if (s->state == S_NONE && sk->state != BPF_TCP_LISTEN)
		return foreign(skb, sk); /* bound to a protected port, but it connects */
	struct pkt p;
	__builtin_memset(&p, 0, sizeof(p));
	if (parse(skb, &p) < 0) {
		if (s->state != S_NONE)
			lose(s);
		return 1;
	}
	if (!p.len)
		return 1;
	p.kind = K_IN;
	p.base = s->in_base;
	if (s->state == S_NONE) { /* data with the ACK that ends the handshake: the accepted socket does not exist yet */
		p.kind = K_LISTENER_IN;
		p.base = p.seq;
	} else if (__sync_fetch_and_add(&s->in_bytes, p.len) >= IN_MAX) {
		return 1;
	}
	p.n = p.len;
	p.cookie = bpf_get_socket_cookie(skb);
	p.listener = s->listener;
	if (copy(skb, &p) < 0 && p.kind == K_IN)
		lose(s);
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
