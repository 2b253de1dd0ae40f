// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"holdfast/softtpm"
	"holdfast/tpmio/filestore"
	"holdfast/tpmio/serve"
	"holdfast/tpmio/vtpmproxy"
)

func init() {
	tpmCommands = append(tpmCommands, func(f *tpmFlags) *cobra.Command {
		var (
			c         serve.Config
			ephemeral bool
			readyFD   int
			locality  uint
			startup   string
			keyFile   string
			size      int
			profile   string
		)
		cmd := &cobra.Command{
			Use: "serve", Short: "Serve our software TPM until SIGTERM", Args: cobra.NoArgs,
			Long: `Serve our software TPM in the foreground. SIGTERM and SIGINT end it with its state saved.

Without an address it listens on a unix socket with mode 0600: /run/holdfast/tpm.sock for root,
$XDG_RUNTIME_DIR/holdfast/tpm.sock for others. Whoever reaches a TPM can use its keys: TCP ports
know no users, so bind them to loopback, or in a network namespace of their own.

ADDR is HOST:PORT or unix:PATH; the simulator protocol's platform port is PORT+1.
TPM2_Startup is left to the client unless --startup says otherwise.`,
			RunE: func(cmd *cobra.Command, _ []string) (err error) {
				if locality > 2 {
					return usageError(fmt.Errorf("--locality-max %d: expected 0, 1 or 2 (3 and 4 only by a passed descriptor or in process)", locality))
				}
				c.Locality = uint8(locality)
				switch s := serve.Startup(startup); s {
				case serve.StartupClient, serve.StartupClear, serve.StartupState:
					c.Startup = s
				default:
					return usageError(fmt.Errorf("--startup %q: expected clear or state", startup))
				}
				if ephemeral && c.StateDir != "" {
					return usageError(errors.New("--state and --ephemeral: expected one of them"))
				}
				if p := softtpm.Profile(profile); p != softtpm.ProfileFull && p != softtpm.ProfileClassic {
					return usageError(fmt.Errorf("--profile %q: expected full or classic", profile))
				}
				if keyFile != "" {
					if ephemeral {
						return usageError(errors.New("--key-file and --ephemeral: there is no state file to encrypt"))
					}
					if c.StateKey, err = filestore.ReadKey(keyFile); err != nil {
						return err
					}
					defer clear(c.StateKey)
				}
				if !ephemeral && c.StateDir == "" {
					if c.StateDir, err = serve.DefaultState(); err != nil {
						return usageError(err)
					}
				}
				c.Options = softtpm.Options{CommandSize: size, Profile: softtpm.Profile(profile)}
				c.Log = slog.Default()
				c.OnReady = func(a serve.Addresses) error { return ready(readyFD, a) }
				err = serve.Run(cmd.Context(), c)
				if errors.Is(err, vtpmproxy.ErrUnsupported) {
					return unsupportedError(err)
				}
				return err
			},
		}
		fl := cmd.Flags()
		fl.StringVar(&c.StateDir, "state", "", "folder of the TPM's state (default: /var/lib/holdfast/tpm for root, else in $XDG_STATE_HOME)")
		fl.StringVar(&keyFile, "key-file", "", "encrypt the state file with the key in this file: 32 bytes or 64 hexadecimal digits, mode 0600")
		fl.BoolVar(&ephemeral, "ephemeral", false, "a new TPM that is gone at the end")
		fl.StringVar(&c.MSSIM, "mssim", "", "serve the simulator protocol at HOST:PORT and PORT+1")
		fl.StringVar(&c.SWTPM, "swtpm", "", "serve swtpm's data channel at ADDR")
		fl.StringVar(&c.Control, "swtpm-ctrl", "", "serve swtpm's control channel at ADDR")
		fl.BoolVar(&c.VTPMProxy, "vtpm-proxy", false, "make a /dev/tpmN of this kernel (needs /dev/vtpmx)")
		fl.IntVar(&readyFD, "ready-fd", -1, "write a line per address to this descriptor when ready, and close it")
		fl.UintVar(&locality, "locality-max", 0, "highest locality of the listeners, 0 to 2")
		fl.StringVar(&startup, "startup", "", "do TPM2_Startup: clear or state")
		fl.IntVar(&size, "command-size", 8192, "largest command and response in bytes: 8192, or 4096 for old clients")
		fl.StringVar(&profile, "profile", string(softtpm.ProfileFull), "algorithms that TPM2_GetCapability names: full, or classic for clients that stop at one they do not know")
		return cmd
	})
}

// ready tells on the log and on a descriptor that the TPM can be reached.
func ready(fd int, a serve.Addresses) error {
	slog.Info("TPM ready", "mssim", a.MSSIM, "swtpm", a.SWTPM, "swtpm-ctrl", a.Control, "device", a.Device)
	if fd < 0 {
		return nil
	}
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return fmt.Errorf("--ready-fd %d is not an open descriptor", fd)
	}
	text := ""
	for _, s := range []string{a.MSSIM, a.SWTPM, a.Device} {
		if s != "" {
			text += s + "\n"
		}
	}
	if a.Control != "" {
		text += "swtpm-ctrl:" + a.Control + "\n"
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
