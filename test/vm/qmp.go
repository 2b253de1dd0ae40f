// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// QMP runs one command of the QEMU machine protocol, such as "system_wakeup"
// or "human-monitor-command", and returns what it answers. It waits for up to
// a minute.
func (m *Machine) QMP(command string, arguments map[string]any) (json.RawMessage, error) {
	var conn net.Conn
	var err error
	for range 100 { // QEMU makes its socket some time after it starts
		if conn, err = net.Dial("unix", filepath.Join(m.dir, "qmp")); err == nil || !m.Running() {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("qmp: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	dec, enc := json.NewDecoder(conn), json.NewEncoder(conn)
	var greeting json.RawMessage
	if err := dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("qmp greeting: %w", err)
	}
	if _, err := exchange(dec, enc, "qmp_capabilities", nil); err != nil {
		return nil, err
	}
	return exchange(dec, enc, command, arguments)
}

func exchange(dec *json.Decoder, enc *json.Encoder, command string, arguments map[string]any) (json.RawMessage, error) {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := enc.Encode(request); err != nil {
		return nil, fmt.Errorf("qmp %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Class, Desc string }
			Event  string
		}
		if err := dec.Decode(&answer); err != nil {
			return nil, fmt.Errorf("qmp %s: %w", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return nil, fmt.Errorf("qmp %s: %s", command, answer.Error.Desc)
		default:
			return answer.Return, nil
		}
	}
}

// Monitor runs a command of QEMU's monitor for people, such as "savevm one".
// These report failure by text only, which is returned.
func (m *Machine) Monitor(line string) (string, error) {
	raw, err := m.QMP("human-monitor-command", map[string]any{"command-line": line})
	if err != nil {
		return "", err
	}
	var text string
	return text, json.Unmarshal(raw, &text)
}
