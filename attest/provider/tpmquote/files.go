// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"fmt"
	"os"
)

// LoadKeyFile reads the key file at path.
func LoadKeyFile(path string) (*KeyFile, error) {
	b, err := readFile(path, 1<<16)
	if err != nil {
		return nil, err
	}
	k, err := ParseKeyFile(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// LoadSecret reads the secret file at path, which must be readable by its
// owner only. Erase the result after use.
func LoadSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if m := info.Mode(); !m.IsRegular() || m.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: mode %04o: expected a regular file that only its owner can read (chmod 600)", path, m.Perm())
	}
	b, err := readFile(path, 1024)
	if err != nil {
		return nil, err
	}
	defer clear(b)
	s, err := ParseSecret(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
