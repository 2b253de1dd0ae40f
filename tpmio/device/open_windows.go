// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"os"
)

// openFile says that there is no device file: Windows gives programs its TPM
// through the TBS service only, which this package does not speak.
func openFile(path string) (*os.File, error) {
	return nil, fmt.Errorf("%s: Windows has no TPM device files (its TBS service is not supported here): %w", path, errors.ErrUnsupported)
}
