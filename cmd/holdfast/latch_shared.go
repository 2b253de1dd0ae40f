// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
)

// writeJSON writes v, indented, to a file.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
