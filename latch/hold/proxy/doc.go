// SPDX-License-Identifier: Apache-2.0

// Package proxy holds connections in user space, for systems without eBPF and
// for users without privileges: programs are told to use it as an HTTP CONNECT
// or SOCKS5 proxy, or a rule of the system leads their connections to it
// (transparent, Linux). Make a Proxy with New, give it listeners with Serve; it
// is a hold.Hold.
//
// How it works. It opens the connection to the server and reads exactly one TLS
// record of the client: the ClientHello, which it copies and passes on. What the
// server sends goes to the client at once, its first 4 KiB also as copies to the
// gate. The client's further bytes stay unread in the kernel until the release;
// only after a HelloRetryRequest one more ClientHello is read. After the release
// both directions are copied by io.Copy, which on Linux splices: the bytes pass
// through no buffer of this process.
//
// What it promises is what package hold says, except that TCP's own view needs
// no examination: the bytes that the client gets are the bytes that were copied.
//
// What it does not cover: programs that do not use it. Whoever can reach its
// listener can use it; listen on the loopback address.
package proxy
