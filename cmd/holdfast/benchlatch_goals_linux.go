// SPDX-License-Identifier: Apache-2.0

package main

// goalColumns are those of the CSV file of --goals, behind the host's.
var goalColumns = []string{"what", "seed", "goal", "ours", "low", "high", "unit", "met"}
