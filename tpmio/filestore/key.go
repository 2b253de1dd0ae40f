// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// ReadKey reads the key for Options.Key from a file: 32 bytes, or 64
// hexadecimal digits with or without a newline. A file that others can read is
// refused, and so is a key of zeros. The caller erases the key.
func ReadKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("filestore: key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("filestore: key: %w", err)
	}
	if info.Mode().IsRegular() {
		if why := othersReach(info, path); why != "" {
			return nil, fmt.Errorf("filestore: the key file %s %s; make a new key if someone may have read it", path, why)
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, 2*keySize+2))
	if err != nil {
		return nil, fmt.Errorf("filestore: key: %w", err)
	}
	return parseKey(path, b)
}

// parseKey reads the content of a key file. It takes b over: what is not
// returned is erased.
func parseKey(path string, b []byte) ([]byte, error) {
	key := b
	if len(b) != keySize {
		defer clear(b)
		key = make([]byte, keySize)
		if n, err := hex.Decode(key, trimmed(b)); err != nil || n != keySize {
			clear(key)
			return nil, fmt.Errorf("filestore: the key file %s: expected %d bytes or %d hexadecimal digits", path, keySize, 2*keySize)
		}
	}
	if bytes.Equal(key, make([]byte, keySize)) {
		return nil, fmt.Errorf("filestore: the key file %s holds zeros only; make one by: head -c 32 /dev/urandom", path)
	}
	return key, nil
}

// trimmed returns what must be the digits; of another length it returns none.
func trimmed(b []byte) []byte {
	if b = bytes.TrimSuffix(b, []byte("\n")); len(b) != 2*keySize {
		return nil
	}
	return b
}
