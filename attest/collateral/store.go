// SPDX-License-Identifier: Apache-2.0

// Package collateral keeps what vendors publish about their chips: revocation
// lists, certificates of chips, TCB information. A Store is a folder; nothing
// in it is trusted for being there, each item is signed by its vendor and has
// a date of its own, which Expires reads.
//
// Start with Open and call Get. Verifiers only ever Get: no network call is on
// the path of a connection. Fetch is the one function that uses the network,
// and `holdfast attest collateral fetch` the one caller of it.
package collateral

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxBody bounds an item, in bytes: Intel's TCB information has 15 KiB.
const MaxBody = 1 << 20

// ErrMissing says that an item is not in the store.
var ErrMissing = errors.New("collateral is missing; `holdfast attest collateral fetch` gets it")

// Item is one answer of a vendor's server.
type Item struct {
	URL     string            `json:"url"`
	Header  map[string]string `json:"header,omitempty"` // only those with an issuer's chain
	Body    []byte            `json:"body"`
	Fetched time.Time         `json:"fetched"`
}

func (i *Item) check() error {
	if !strings.HasPrefix(i.URL, "https://") || len(i.URL) > 2048 {
		return fmt.Errorf("collateral: expected an https address of at most 2048 bytes, got %.80q", i.URL)
	}
	if len(i.Body) == 0 || len(i.Body) > MaxBody {
		return fmt.Errorf("collateral %s: expected 1 to %d bytes, got %d", i.URL, MaxBody, len(i.Body))
	}
	return nil
}

// Store is a folder of items. A nil Store has none. It is safe for concurrent
// use; another process may fetch into the folder meanwhile.
type Store struct {
	dir string

	mu   sync.Mutex
	kept map[string]kept
}

// kept is an item in memory, with what tells whether the file is another now.
type kept struct {
	modified time.Time
	size     int64
	item     *Item
}

// maxKept bounds the items in memory.
const maxKept = 256

// Open opens a folder, which must exist.
func Open(dir string) (*Store, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("collateral: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("collateral: %s: expected a folder", dir)
	}
	return &Store{dir: dir, kept: map[string]kept{}}, nil
}

const suffix = ".json"

func (s *Store) path(url string) string {
	h := sha256.Sum256([]byte(url))
	return filepath.Join(s.dir, hex.EncodeToString(h[:])+suffix)
}

// Get finds the item of a URL. Do not change it. A missing one is ErrMissing.
func (s *Store) Get(url string) (*Item, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: %s (no folder is configured)", ErrMissing, url)
	}
	path := s.path(url)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrMissing, url)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[url]; ok && k.modified.Equal(info.ModTime()) && k.size == info.Size() {
		return k.item, nil
	}
	item, err := load(path)
	if err != nil {
		return nil, err
	}
	if item.URL != url {
		return nil, fmt.Errorf("collateral: %s: expected the item of %s, got that of %.80q", path, url, item.URL)
	}
	if len(s.kept) >= maxKept {
		clear(s.kept)
	}
	s.kept[url] = kept{info.ModTime(), info.Size(), item}
	return item, nil
}

func load(path string) (*Item, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > 2*MaxBody {
		return nil, fmt.Errorf("collateral: %s: expected at most %d bytes, got %d", path, 2*MaxBody, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	i, err := parseItem(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return i, nil
}

func parseItem(b []byte) (*Item, error) {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	i := &Item{}
	if err := d.Decode(i); err != nil {
		return nil, fmt.Errorf("collateral: %w", err)
	}
	if d.More() {
		return nil, errors.New("collateral: expected one JSON object")
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	return i, nil
}

// Put stores an item, at once or not at all, in place of an earlier one.
func (s *Store) Put(i *Item) error {
	if err := i.check(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, ".fetch-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path(i.URL))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// List reads every item, sorted by URL.
func (s *Store) List() ([]*Item, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var out []*Item
	for _, n := range names {
		i, err := load(n)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b *Item) int { return strings.Compare(a.URL, b.URL) })
	return out, nil
}
