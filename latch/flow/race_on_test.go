// SPDX-License-Identifier: Apache-2.0

//go:build race

package flow

// raceDetector: the detector allocates for itself.
const raceDetector = true
