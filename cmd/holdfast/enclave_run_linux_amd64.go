// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/enclave/host"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts"
)

// ran is what `enclave run` prints.
type ran struct {
	File      string   `json:"file"`
	Mode      string   `json:"mode"`
	Level     string   `json:"level"`
	MREnclave string   `json:"mrenclave"`
	Pages     int      `json:"pages"`
	LoadMS    float64  `json:"load_ms"`
	Calls     []ranOne `json:"calls"`
}

type ranOne struct {
	Index  int     `json:"ecall"`
	MS     string  `json:"ms_after,omitempty"`
	OCalls []int   `json:"ocalls,omitempty"`
	Error  string  `json:"error,omitempty"`
	TimeMS float64 `json:"ms"`
}

func init() {
	enclaveVerbs = append(enclaveVerbs, enclaveRun)
}

func enclaveRun(g *globals) *cobra.Command {
	var calls []string
	var debug bool
	var epc int
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Load a signed SGX enclave without SGX and make ECALLs",
		Long: `Loads a .signed.so into a locked-down process (HU mode, level inproc: no
attestation, and no protection from this program or from root), initializes its
trusted runtime and makes the ECALLs given. A marshalling structure is given and
shown in hex. OCALLs are listed and answered with success.`,
		Example: "  holdfast enclave run enclave.signed.so --ecall 0:0000000000000000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := runEnclave(args[0], calls, debug, epc)
			if r != nil {
				if g.json {
					if e := printJSON(r); e != nil {
						return e
					}
				} else {
					r.print(cmd)
				}
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&calls, "ecall", nil, "INDEX or INDEX:HEX, the marshalling structure; repeatable, in order")
	c.Flags().BoolVar(&debug, "debug", false, "load as a debug enclave")
	c.Flags().IntVar(&epc, "epc", 256, "size of the EPC in MiB")
	return c
}

func runEnclave(file string, calls []string, debug bool, epc int) (*ran, error) {
	if epc < 1 || epc > 1<<14 {
		return nil, usageError(fmt.Errorf("--epc: expected 1 to %d MiB, got %d", 1<<14, epc))
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError(err)
	}
	img, err := image.ReadSDK(b)
	if err != nil {
		return nil, refusedError(err)
	}
	o := monitor.Options{}
	if _, err := rand.Read(o.Root[:]); err != nil {
		return nil, refusedError(err)
	}
	p, err := host.New(epc<<8, o)
	if err != nil {
		return nil, refusedError(err)
	}
	defer p.Close()
	var ocalls []int
	start := time.Now()
	e, err := urts.Load(p, img, urts.Options{Debug: debug, OCalls: func(_ *urts.Memory, index int, _ uint64) uint32 {
		ocalls = append(ocalls, index)
		return 0
	}})
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", file, err))
	}
	defer e.Close()
	mr := e.MREnclave()
	r := &ran{File: file, Mode: "HU", Level: "inproc", MREnclave: hex.EncodeToString(mr[:]), Pages: len(img.Pages), LoadMS: msSince(start)}
	for _, c := range calls {
		index, ms, err := parseECall(c)
		if err != nil {
			return r, usageError(err)
		}
		ocalls = nil
		one := ranOne{Index: index}
		var at uint64
		if len(ms) > 0 {
			if at, err = e.Memory.Alloc(len(ms)); err != nil {
				return r, refusedError(err)
			}
			view, err := e.Memory.Bytes(at, uint64(len(ms)))
			if err != nil {
				return r, refusedError(err)
			}
			copy(view, ms)
			start = time.Now()
			err = e.ECall(index, at)
			one.MS, one.Error = hex.EncodeToString(view), text(err)
		} else {
			start = time.Now()
			one.Error = text(e.ECall(index, 0))
		}
		one.TimeMS, one.OCalls = msSince(start), ocalls
		r.Calls = append(r.Calls, one)
	}
	for _, c := range r.Calls {
		if c.Error != "" {
			return r, refusedError(errors.New("an ECALL failed; see above"))
		}
	}
	return r, nil
}

func msSince(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func parseECall(s string) (int, []byte, error) {
	n, h, _ := strings.Cut(s, ":")
	index, err := strconv.Atoi(n)
	if err != nil || index < 0 {
		return 0, nil, fmt.Errorf("--ecall %q: expected INDEX or INDEX:HEX", s)
	}
	ms, err := hex.DecodeString(h)
	if err != nil {
		return 0, nil, fmt.Errorf("--ecall %q: the part after the colon is not hex", s)
	}
	return index, ms, nil
}

func (r *ran) print(cmd *cobra.Command) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "MRENCLAVE  %s\nmode       %s, level %s (not attested)\nloaded     %d pages in %.1f ms, trusted runtime initialized\n", r.MREnclave, r.Mode, r.Level, r.Pages, r.LoadMS)
	for _, c := range r.Calls {
		fmt.Fprintf(w, "ECALL %-4d %.2f ms", c.Index, c.TimeMS)
		if len(c.OCalls) > 0 {
			fmt.Fprintf(w, ", OCALLs %v", c.OCalls)
		}
		if c.MS != "" {
			fmt.Fprintf(w, ", ms %s", c.MS)
		}
		if c.Error != "" {
			fmt.Fprintf(w, ", %s", c.Error)
		}
		fmt.Fprintln(w)
	}
}
