// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The library's own connection writes table flags as zero, so the few messages
// of a table are made here (linux/netfilter/nf_tables.h); expressions are the library's.

const (
	tableDormant = 1
	tableOwner   = 2 // NFT_TABLE_F_OWNER, Linux 5.12

	nftMsgNewTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE
	nftMsgDelTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE
	nftMsgNewChain = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWCHAIN
	nftMsgNewRule  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWRULE
)

// transaction collects messages that the kernel carries out together or not at all.
type transaction struct {
	msgs []netlink.Message
	err  error
}

func nfgen(family byte, res uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, res)
}

func (t *transaction) add(typ int, flags netlink.HeaderFlags, attrs []netlink.Attribute) {
	b, err := netlink.MarshalAttributes(attrs)
	t.err = errors.Join(t.err, err)
	t.msgs = append(t.msgs, netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.Request | netlink.Acknowledge | flags},
		Data:   append(nfgen(unix.NFPROTO_INET, 0), b...),
	})
}

func text(typ uint16, s string) netlink.Attribute {
	return netlink.Attribute{Type: typ, Data: append([]byte(s), 0)}
}
func number(typ uint16, v uint32) netlink.Attribute {
	return netlink.Attribute{Type: typ, Data: binary.BigEndian.AppendUint32(nil, v)}
}

// replace makes a table anew with its chains and rules.
func (t *transaction) replace(name string, flags uint32, chains []chain) {
	t.newTable(name, flags)
	t.delTable(name)
	t.newTable(name, flags)
	for _, c := range chains {
		attrs := []netlink.Attribute{text(unix.NFTA_CHAIN_TABLE, name), text(unix.NFTA_CHAIN_NAME, c.name)}
		if c.hook >= 0 {
			hook, err := netlink.MarshalAttributes([]netlink.Attribute{number(unix.NFTA_HOOK_HOOKNUM, uint32(c.hook)), number(unix.NFTA_HOOK_PRIORITY, uint32(c.priority))})
			t.err = errors.Join(t.err, err)
			attrs = append(attrs, netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_CHAIN_HOOK, Data: hook}, text(unix.NFTA_CHAIN_TYPE, "filter"))
		}
		t.add(nftMsgNewChain, netlink.Create, attrs)
	}
	for _, c := range chains {
		for _, r := range c.rules {
			t.newRule(name, c.name, r)
		}
	}
}

func (t *transaction) newTable(name string, flags uint32) {
	t.add(nftMsgNewTable, netlink.Create, []netlink.Attribute{text(unix.NFTA_TABLE_NAME, name), number(unix.NFTA_TABLE_FLAGS, flags)})
}

func (t *transaction) delTable(name string) {
	t.add(nftMsgDelTable, 0, []netlink.Attribute{text(unix.NFTA_TABLE_NAME, name)})
}

func (t *transaction) newRule(table, chain string, list []expr.Any) {
	var body []netlink.Attribute
	for _, e := range list {
		b, err := expr.Marshal(unix.NFPROTO_INET, e)
		t.err = errors.Join(t.err, err)
		body = append(body, netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: b})
	}
	b, err := netlink.MarshalAttributes(body)
	t.err = errors.Join(t.err, err)
	t.add(nftMsgNewRule, netlink.Create|netlink.Append, []netlink.Attribute{
		text(unix.NFTA_RULE_TABLE, table), text(unix.NFTA_RULE_CHAIN, chain), {Type: unix.NLA_F_NESTED | unix.NFTA_RULE_EXPRESSIONS, Data: b}})
}

// commit sends the transaction and waits for the kernel's answer to each part.
func (t *transaction) commit(c *netlink.Conn) error {
	if t.err != nil {
		return t.err
	}
	edge := func(typ netlink.HeaderType) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: typ, Flags: netlink.Request}, Data: nfgen(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)}
	}
	all := append([]netlink.Message{edge(unix.NFNL_MSG_BATCH_BEGIN)}, t.msgs...)
	all = append(all, edge(unix.NFNL_MSG_BATCH_END))
	if _, err := c.SendMessages(all); err != nil {
		return fmt.Errorf("netfilter rules: %w", err)
	}
	for range t.msgs {
		if _, err := c.Receive(); err != nil {
			drain(c)
			return fmt.Errorf("netfilter rules: %w", err)
		}
	}
	return nil
}

// drain reads the answers that follow an error.
func drain(c *netlink.Conn) {
	for {
		c.SetReadDeadline(soon())
		_, err := c.Receive()
		var op *netlink.OpError
		if err != nil && (!errors.As(err, &op) || op.Timeout()) {
			break
		}
	}
	c.SetReadDeadline(never)
}
