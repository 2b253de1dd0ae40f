// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Append adds rows to a CSV file. A new file gets the header; a file with
// another header is left alone and is an error, so that columns never mix.
func Append(path string, header []string, rows [][]string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	first, err := csv.NewReader(f).Read()
	w := csv.NewWriter(f)
	switch {
	case errors.Is(err, io.EOF):
		_ = w.Write(header)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case strings.Join(first, ",") != strings.Join(header, ","):
		return fmt.Errorf("%s has the columns %v, expected %v: move it away", path, first, header)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	for _, r := range rows {
		if len(r) != len(header) {
			return fmt.Errorf("a row of %d fields for %d columns", len(r), len(header))
		}
		_ = w.Write(r)
	}
	w.Flush()
	return w.Error()
}
