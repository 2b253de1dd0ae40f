// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The recorder of clients: copies the hellos of the connections that local
// programs open, and lets everything pass. Records have the form of
// observe.bpf.c, with the client's stream as K_IN and the server's as K_OUT, so
// that the same reader takes both. Nobody is woken: the reader looks by itself.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define IPPROTO_TCP 6
#define CLIENT_MAX 16384 /* of the client's stream */
#define SERVER_MAX 4096 /* of the server's */

#define K_IN 3
#define K_OUT 4
#define K_CLOSED 5
#define F_LOST 1

struct conn {
	__u32 out_base, in_base;
	__u32 need; /* offset in the server's stream at which copying ends */
	__u8 lost, pad[3];
};

struct rec {
	__u64 cookie;
	__u64 listener;
	__u8 local[16], remote[16];
	__u32 seq, base;
	__u32 len, n;
	__u16 lport, rport;
	__u8 kind, flags, pad[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

struct pkt {
	__u8 src[16], dst[16];
	__u32 seq, off, len, n, base;
	__u16 sport, dport;
	__u8 kind, flags;
	__u64 cookie;
};

static __always_inline int parse(struct __sk_buff *skb, struct pkt *p)
{
	__u8 h[40], t[20];
	__u32 at;

	if (bpf_skb_load_bytes(skb, 0, h, 20) < 0)
		return -1;
	if (h[0] >> 4 == 4) {
		if (h[9] != IPPROTO_TCP)
			return -1;
		at = (h[0] & 15) * 4;
		p->src[10] = p->src[11] = p->dst[10] = p->dst[11] = 0xff;
		__builtin_memcpy(p->src + 12, h + 12, 4);
		__builtin_memcpy(p->dst + 12, h + 16, 4);
	} else {
		if (bpf_skb_load_bytes(skb, 0, h, 40) < 0 || h[6] != IPPROTO_TCP)
			return -1;
		at = 40;
		__builtin_memcpy(p->src, h + 8, 16);
		__builtin_memcpy(p->dst, h + 24, 16);
	}
	if (bpf_skb_load_bytes(skb, at, t, 20) < 0)
		return -1;
	p->sport = t[0] << 8 | t[1];
	p->dport = t[2] << 8 | t[3];
	p->seq = (__u32)t[4] << 24 | (__u32)t[5] << 16 | (__u32)t[6] << 8 | t[7];
	p->off = at + (t[12] >> 4) * 4;
	p->len = skb->len > p->off ? skb->len - p->off : 0;
	return 0;
}

static __always_inline void fill(struct rec *r, struct pkt *p)
{
	__builtin_memset(r, 0, sizeof(*r));
	r->cookie = p->cookie;
	r->seq = p->seq;
	r->base = p->base;
	r->len = p->len;
	r->n = p->n;
	r->kind = p->kind;
	r->flags = p->flags;
	int out = p->kind == K_IN; /* the client's stream leaves */
	__builtin_memcpy(r->local, out ? p->src : p->dst, 16);
	__builtin_memcpy(r->remote, out ? p->dst : p->src, 16);
	r->lport = out ? p->sport : p->dport;
	r->rport = out ? p->dport : p->sport;
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
			bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);   \
			return 0;                                  \
		}                                                  \
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);          \
		return -1;                                         \
	} while (0)

static __noinline int copy(struct __sk_buff *skb, struct pkt *p)
{
	if (p->n <= 320)
		COPY(320);
	if (p->n <= 1792)
		COPY(1792);
	COPY(4096);
}

static __always_inline void lose(struct conn *s)
{
	__u32 zero = 0;
	__u64 *v = bpf_map_lookup_elem(&lost, &zero);
	s->lost = 1;
	if (v)
		__sync_fetch_and_add(v, 1);
}

SEC("sockops") int client_sockops(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	if (!sk)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB) {
		struct conn *s = bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!s)
			return 1;
		s->out_base = ctx->snd_nxt;
		s->in_base = ctx->rcv_nxt;
		s->need = SERVER_MAX;
		s->lost = 0;
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
		return 1;
	}
	if (ctx->op != BPF_SOCK_OPS_STATE_CB || ctx->args[0] != BPF_TCP_ESTABLISHED || !bpf_sk_storage_get(&conns, sk, 0, 0))
		return 1;
	struct rec *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
	if (!r)
		return 1;
	__builtin_memset(r, 0, sizeof(*r));
	r->cookie = bpf_get_socket_cookie(ctx);
	r->kind = K_CLOSED;
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
	return 1;
}

static __always_inline int look(struct __sk_buff *skb, int egress)
{
	struct bpf_sock *sk = skb->sk;
	if (!sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	struct conn *s = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!s || !s->need)
		return 1;
	struct pkt p;
	__builtin_memset(&p, 0, sizeof(p));
	if (parse(skb, &p) < 0) {
		lose(s);
		return 1;
	}
	if (!p.len)
		return 1;
	p.kind = egress ? K_IN : K_OUT;
	p.base = egress ? s->out_base : s->in_base;
	p.flags = s->lost ? F_LOST : 0;
	p.cookie = bpf_get_socket_cookie(skb);
	__u32 off = p.seq - p.base, end = off + p.len, most = egress ? CLIENT_MAX : s->need;
	if ((__s32)off < 0 || off >= most)
		return 1;
	int ends = 0;
	if (!egress && off == 0 && p.len >= 43) {
		__u8 b[16];
		if (bpf_skb_load_bytes(skb, p.off, b, sizeof(b)) == 0 && b[0] == 0x16 && b[5] == 2 &&
		    !(b[11] == 0xcf && b[12] == 0x21 && b[13] == 0xad && b[14] == 0x74)) {
			__u32 need = 5 + (b[3] << 8 | b[4]);
			if (need < most)
				most = need;
			ends = end >= need;
		}
	}
	p.n = end > most ? most - off : p.len;
	if (p.n > 4096)
		p.n = 4096; /* a larger one is cut, and the reader sees that */
	if (copy(skb, &p) < 0)
		lose(s);
	if (ends || (!egress && end >= SERVER_MAX))
		s->need = 0;
	return 1;
}

SEC("cgroup_skb/egress") int client_egress(struct __sk_buff *skb) { return look(skb, 1); }
SEC("cgroup_skb/ingress") int client_ingress(struct __sk_buff *skb) { return look(skb, 0); }

char _license[] SEC("license") = "Dual BSD/GPL";
