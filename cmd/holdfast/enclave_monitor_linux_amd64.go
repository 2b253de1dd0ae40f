// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/enclave/daemon"
	"holdfast/tpmio/dial"
)

func init() {
	enclaveVerbs = append(enclaveVerbs, enclaveMonitor, enclaveMonitorProcess)
}

// monitorProcess is the hidden verb that the launcher starts.
const monitorProcess = "monitor-process"

// launchFlags are the flags that say how a monitor is launched.
type launchFlags struct {
	c         daemon.LaunchConfig
	user      string
	epc       int
	algorithm string
	pcrs      []uint
	mode      string
}

// defaultUser runs the monitor when root launches it and no user
// holdfast-enclave exists: a number of no account, outside the range of
// ordinary users.
const defaultUser = 61847

func (l *launchFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&l.c.State, "state", "", "folder of the sealed root secret, the attestation key and, without --tpm, the TPM (default for root: /var/lib/holdfast/enclave)")
	f.StringVar(&l.c.TPM, "tpm", "", "the TPM: "+dial.Forms+" (default: one of its own in the state folder, which nobody else can reach)")
	f.StringVar(&l.user, "user", "", "user of the monitor when root launches it (default: holdfast-enclave if there is one, else number 61847)")
	f.IntVar(&l.epc, "epc", 256, "size of the EPC in MiB")
	f.StringVar(&l.algorithm, "key", evidence.MLDSA65, "the monitor's key: ML-DSA-65 or ES256")
	f.UintSliceVar(&l.pcrs, "pcrs", nil, "further PCRs of the SHA-256 bank to seal the root secret to and to quote, such as 0,7")
	f.StringArrayVar(&l.c.EventLogs, "event-log", nil, "event log that leads to them; firmware's first")
	f.BoolVar(&l.c.NewRoot, "new-root", false, "if the sealed root secret does not open, draw a new one: all that enclaves sealed before is lost, and the key must be enrolled again")
	f.StringVar(&l.mode, "mode", "auto", "where enclaves run: gu (ring 3 of a virtual machine), p (ring 0), hu (a locked-down process); auto is gu where KVM works, else hu")
	f.Uint64Var(&l.c.MaxExceptions, "max-exceptions", 1<<24, "exceptions that an enclave may raise in one ECALL before it is ended; 0: without bound")
	f.BoolVar(&l.c.NoDebug, "no-debug", false, "refuse debug enclaves")
}

// runMode checks --mode.
func (l *launchFlags) runMode() (string, error) {
	if l.mode == "auto" {
		return "", nil
	}
	if m := strings.ToUpper(l.mode); slices.Contains(evidence.EnclaveModes, m) {
		return m, nil
	}
	return "", usageError(fmt.Errorf("--mode: expected auto, gu, p or hu, got %q", l.mode))
}

// config checks the flags.
func (l *launchFlags) config() (daemon.LaunchConfig, error) {
	c := l.c
	if l.epc < 1 || l.epc > 1<<14 {
		return c, usageError(fmt.Errorf("--epc: expected 1 to %d MiB, got %d", 1<<14, l.epc))
	}
	c.Frames, c.Algorithm = l.epc<<8, l.algorithm
	if l.algorithm != evidence.MLDSA65 && l.algorithm != evidence.ES256 {
		return c, usageError(fmt.Errorf("--key: expected %s or %s, got %q", evidence.MLDSA65, evidence.ES256, l.algorithm))
	}
	for _, p := range l.pcrs {
		if p > 23 || p == 16 || p == 23 {
			return c, usageError(fmt.Errorf("--pcrs: expected 0 to 22 without 16, which programs can reset, got %d", p))
		}
		c.PCRs = append(c.PCRs, uint8(p))
	}
	if c.State == "" {
		if os.Geteuid() != 0 {
			return c, usageError(errors.New("--state: expected a folder; only root has a default"))
		}
		c.State = "/var/lib/holdfast/enclave"
	}
	var err error
	if c.State, err = filepath.Abs(c.State); err != nil {
		return c, err
	}
	for i, p := range c.EventLogs {
		if c.EventLogs[i], err = filepath.Abs(p); err != nil {
			return c, err
		}
	}
	if c.RunMode, err = l.runMode(); err != nil {
		return c, err
	}
	c.Args = []string{"enclave", monitorProcess}
	c.User, err = l.monitorUser()
	return c, err
}

func (l *launchFlags) monitorUser() (int, error) {
	if os.Geteuid() != 0 {
		if l.user != "" {
			return 0, usageError(errors.New("--user: only root can run the monitor as another user"))
		}
		return -1, nil
	}
	name := l.user
	if name == "" {
		u, err := user.Lookup("holdfast-enclave")
		if err != nil {
			return defaultUser, nil
		}
		return strconv.Atoi(u.Uid)
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 1<<31 {
		return n, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, usageError(fmt.Errorf("--user: %w", err))
	}
	return strconv.Atoi(u.Uid)
}

func enclaveMonitor(*globals) *cobra.Command {
	var l launchFlags
	var mode string
	var readyFD int
	c := &cobra.Command{
		Use:   "monitor [--state DIR] [--tpm SPEC] [--socket PATH]",
		Short: "Run the enclave monitor: measured, with its secrets in a TPM, as a daemon",
		Long: `Run the enclave platform at level hosted, in the foreground until SIGTERM.

This process is the launcher. It opens the TPM, resets it if it is its own,
copies the monitor's program into memory that cannot change, measures that into
PCR 14, and starts it as another user without privileges. The monitor unseals
its root secret, from which all keys of enclaves derive (at the first start it
draws one from the TPM), makes its attestation key, records it in PCR 15 and
closes both PCRs: until the TPM is reset nobody can unseal the secret again.

Another TPM than its own must have been reset since a monitor ran last:
restart 'holdfast tpm serve --startup clear', or the machine.

Applications load enclaves over the socket (holdfast enclave run --socket PATH);
'holdfast enclave enroll' writes the record by which verifiers know this monitor.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := l.config()
			if err != nil {
				return err
			}
			m, err := strconv.ParseUint(mode, 8, 32)
			if err != nil || m > 0o777 {
				return usageError(fmt.Errorf("--socket-mode: expected octal digits such as 0666, got %q", mode))
			}
			cfg.Mode = os.FileMode(m)
			if cfg.Socket, err = socketPath(cfg.Socket); err != nil {
				return err
			}
			cfg.OnReady = func(s string, pid int) {
				slog.Info("enclave monitor ready", "socket", s, "pid", pid, "level", evidence.LevelHosted)
				if f := os.NewFile(uintptr(readyFD), "ready"); readyFD >= 0 && f != nil {
					fmt.Fprintln(f, s)
					f.Close()
				}
			}
			if err := daemon.Launch(cmd.Context(), cfg); err != nil {
				return refusedError(err)
			}
			return nil
		},
	}
	l.flags(c)
	c.Flags().StringVar(&l.c.Socket, "socket", "", "socket for applications (default for root: /run/holdfast/enclave.sock)")
	c.Flags().StringVar(&mode, "socket-mode", "0600", "mode of the socket: who may load enclaves")
	c.Flags().StringVar(&l.c.Image, "image", "", "the monitor's program, if it is not this one")
	c.Flags().IntVar(&readyFD, "ready-fd", -1, "write the socket's path to this descriptor when ready, and close it")
	return c
}

// socketPath is the socket's absolute path.
func socketPath(p string) (string, error) {
	if p == "" {
		if os.Geteuid() == 0 {
			return "/run/holdfast/enclave.sock", nil
		}
		d := os.Getenv("XDG_RUNTIME_DIR")
		if d == "" {
			return "", usageError(errors.New("--socket: expected a path; XDG_RUNTIME_DIR is not set"))
		}
		p = filepath.Join(d, "holdfast", "enclave.sock")
	}
	return filepath.Abs(p)
}

func enclaveMonitorProcess(*globals) *cobra.Command {
	return &cobra.Command{
		Use: monitorProcess, Hidden: true, Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return daemon.Run(cmd.Context()) },
	}
}
