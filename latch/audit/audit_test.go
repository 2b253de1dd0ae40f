// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func read(t *testing.T, file string) (out []Event) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var e Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%s: %q: %v", file, s.Text(), err)
		}
		out = append(out, e)
	}
	return out
}

// Every event is in the files or in a count, whatever happens between: a small
// queue, many writers, the file moved away again and again.
func TestNothingUnsaid(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit")
	l, err := Open(Config{File: file, Queue: 8})
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 3000
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				l.Add(&Event{Time: time.Now(), Event: "released", Service: "shop.example"})
			}
		})
	}
	for i := range 5 {
		if err := os.Rename(file, file+string(rune('0'+i))); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	wg.Wait()
	l.Close()
	var events, said uint64
	files, _ := filepath.Glob(file + "*")
	for _, f := range files {
		for _, e := range read(t, f) {
			if e.Event == "dropped" {
				said += e.Count
			} else {
				events++
			}
		}
	}
	written, missing := l.Counts()
	if len(files) != 6 || events != written || said != missing || events+said != writers*each {
		t.Errorf("%d files: %d events in them, %d written; %d said to be missing, %d missing; expected %d together", len(files), events, written, said, missing, writers*each)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}

// A file that has reached its bound takes no more, and says so after Reopen.
func TestBound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Config{File: file, MaxBytes: 5000})
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		l.Add(&Event{Event: "refused", Detail: strings.Repeat("x", 50)})
	}
	os.Rename(file, file+".1")
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Add(&Event{Event: "released"})
	if err := l.Close(); err == nil {
		t.Error("Close does not say that events are missing")
	}
	old, now := read(t, file+".1"), read(t, file)
	if st, _ := os.Stat(file + ".1"); st.Size() > 5000 || len(now) != 2 || now[0].Event != "dropped" || now[0].Count != uint64(500-len(old)) || now[1].Event != "released" {
		t.Errorf("%d in the full file, then %+v", len(old), now)
	}
}

// A disk that takes nothing: Add goes on, everything is counted.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("SKIP[linux]: there is no /dev/full here")
	}
	file := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Reopen() // nothing is under way in the goroutine after it
	l.f.Close()
	l.f = full
	for range 100 {
		l.Add(&Event{Event: "released"})
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, missing := l.Counts(); missing >= 100 {
			break
		}
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	written, missing := l.Counts()
	if got := read(t, file); written != 0 || missing < 100 || len(got) != 1 || got[0].Count != missing {
		t.Errorf("written %d, missing %d, then %+v", written, missing, got)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Queue: 3}, {File: "x", Queue: -1}, {File: "x", MaxBytes: 10}, {File: "x", Queue: 1 << 30}} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if l, err := Open(Config{}); l != nil || err != nil {
		t.Error(l, err)
	}
	var none *Log
	none.Add(&Event{})
	if none.Reopen() != nil || none.Close() != nil {
		t.Error("a log that is not there fails")
	}
	if _, err := Open(Config{File: t.TempDir()}); err == nil {
		t.Error("a folder was opened as a log")
	}
}
