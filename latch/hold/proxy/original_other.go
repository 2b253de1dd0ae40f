// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proxy

import "net"

const haveTransparent = false

func original(*net.TCPConn) (Target, error) { return Target{}, ErrMode }
