// SPDX-License-Identifier: Apache-2.0

package urts

//go:generate sh -c "as -o probe.o testdata/probe.s && objcopy -O binary -j .text probe.o testdata/probe.bin && rm probe.o"
