// SPDX-License-Identifier: Apache-2.0

// Package holdfast is the root of the module. It holds no code, only the
// tests that keep the house in order: layers_test.go enforces who may import
// whom, hygiene_test.go the rules that every file follows. Start reading at
// ARCHITECTURE.md; the binary is in cmd/holdfast.
package holdfast
