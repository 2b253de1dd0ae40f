// SPDX-License-Identifier: Apache-2.0

package collateral

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// hosts are the servers that Fetch speaks to, so that no address inside
// evidence makes it speak to another.
var hosts = []string{"kdsintf.amd.com", "api.trustedservices.intel.com", "certificates.trustedservices.intel.com", "cert.hygon.cn"}

// Timeout bounds one request.
const Timeout = 20 * time.Second

// Client makes requests; nil in Fetch means one without a cookie jar that
// follows redirects within the same host only.
type Client interface {
	Do(*http.Request) (*http.Response, error)
}

func defaultClient() Client {
	return &http.Client{Timeout: Timeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 || r.URL.Scheme != "https" || r.URL.Host != via[0].URL.Host {
			return fmt.Errorf("a redirect to %s", r.URL.Host)
		}
		return nil
	}}
}

// Fetch gets one URL of a vendor's server. A server that asks to wait
// (AMD's answers 429 to about one request in 10 s) is an error that says so.
func Fetch(ctx context.Context, c Client, url string) (*Item, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	known := false
	for _, h := range hosts {
		known = known || h == host
	}
	if !known || !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("collateral: %s: expected an https address at one of %s", url, strings.Join(hosts, ", "))
	}
	if c == nil {
		c = defaultClient()
	}
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "holdfast")
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("collateral: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests:
		return nil, fmt.Errorf("collateral: %s: the server asks to come back later (Retry-After: %q)", url, resp.Header.Get("Retry-After"))
	default:
		return nil, fmt.Errorf("collateral: %s: expected status 200, got %s", url, resp.Status)
	}
	i := &Item{URL: url, Fetched: time.Now().UTC().Truncate(time.Second)}
	if i.Body, err = io.ReadAll(io.LimitReader(resp.Body, MaxBody+1)); err != nil {
		return nil, fmt.Errorf("collateral: %s: %w", url, err)
	}
	for name, values := range resp.Header {
		if strings.HasSuffix(name, "-Issuer-Chain") && len(values) == 1 {
			if i.Header == nil {
				i.Header = map[string]string{}
			}
			i.Header[name] = values[0]
		}
	}
	if err := i.check(); err != nil {
		return nil, err
	}
	if until, ok := i.Expires(); ok && !time.Now().Before(until) {
		return nil, errors.New("collateral: " + url + ": what the server gave was good until " + until.UTC().Format(time.RFC3339) + " only")
	}
	return i, nil
}
