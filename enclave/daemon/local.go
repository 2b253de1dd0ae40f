// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"holdfast/enclave/daemon/anchor"
	"holdfast/enclave/monitor"
)

// Local is a monitor inside this process with one client: level inproc, for
// development. mode is one of evidence.EnclaveModes; empty is GU where it works,
// else HU; maxExceptions as in Monitor. end closes both.
func Local(frames int, algorithm, mode string, maxExceptions uint64) (c *Client, end func(), err error) {
	a, err := anchor.Inproc(algorithm)
	if err != nil {
		return nil, nil, err
	}
	o := monitor.Options{Root: a.KeyRoot(), CPUSVN: CPUSVN}
	p, err := newPlatform(frames, o, mode)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	ours, theirs, err := localPair()
	if err != nil {
		p.Close()
		return nil, nil, errors.Join(err, a.Close())
	}
	s := NewServer(p, a, p.Mode())
	s.maxExceptions = maxExceptions
	done := make(chan struct{})
	go func() {
		defer close(done)
		newConn(s, theirs).run()
	}()
	return &Client{c: ours}, func() {
		ours.Close()
		<-done
		p.Close()
		_ = a.Close()
	}, nil
}

func localPair() (ours, theirs *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "local")
		c, e := net.FileConn(f)
		f.Close()
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		out[i] = c.(*net.UnixConn)
	}
	if err != nil {
		for _, c := range out {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return out[0], out[1], nil
}
