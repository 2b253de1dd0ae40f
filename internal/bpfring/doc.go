// SPDX-License-Identifier: Apache-2.0

// Package bpfring reads the rings that eBPF programs write and the words that
// they share with this process (Linux only): BPF_MAP_TYPE_RINGBUF and
// BPF_MAP_TYPE_ARRAY with BPF_F_MMAPABLE, in place, without a copy and without
// an allocation.
//
// A program that submits a record with BPF_RB_NO_WAKEUP wakes nobody. Who wants
// to sleep sets a word (1), then looks whether the ring is empty, then sleeps;
// the program reserves its record, then exchanges the word for 0 and submits with
// BPF_RB_FORCE_WAKEUP if it was 1. Both sides have a full barrier between
// their two steps, so one of them sees the other.
package bpfring
