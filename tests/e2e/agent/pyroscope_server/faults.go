// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// How the next requests fail, set by POST /faults with the fields as JSON; GET tells how many have been received.
type fault struct {
	Requests   int    `json:"requests"`    // how many; -1: all
	Status     int    `json:"status"`      // answer with this
	RetryAfter string `json:"retry_after"` // and this header
	Body       string `json:"body"`
	Close      bool   `json:"close"`    // end the connection instead
	Stored     bool   `json:"stored"`   // after the request was handled
	DelayMs    int    `json:"delay_ms"` // wait first, or until the client goes away
}

type faults struct {
	lock     sync.Mutex
	next     fault
	received int
}

func (f *faults) set(w http.ResponseWriter, r *http.Request) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if r.Method == http.MethodPost {
		f.next = fault{}
		if err := json.NewDecoder(r.Body).Decode(&f.next); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]int{"received": f.received, "left": f.next.Requests})
}

func (f *faults) take() (fault, bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.received++
	if f.next.Requests == 0 {
		return fault{}, false
	}
	if f.next.Requests > 0 {
		f.next.Requests--
	}
	return f.next, true
}

// Takes an answer that is not sent.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header             { return n.header }
func (n nowhere) Write(bytes []byte) (int, error) { return len(bytes), nil }
func (n nowhere) WriteHeader(int)                 {}

func (f *faults) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, fails := f.take()
		if !fails {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case <-time.After(time.Duration(now.DelayMs) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		if now.Stored {
			next.ServeHTTP(nowhere{http.Header{}}, r)
		}
		if now.Close {
			panic(http.ErrAbortHandler)
		}
		if now.Status == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if now.RetryAfter != "" {
			w.Header().Set("Retry-After", now.RetryAfter)
		}
		if now.Status/100 == 3 {
			w.Header().Set("Location", "/faults")
		}
		w.WriteHeader(now.Status)
		_, _ = w.Write([]byte(now.Body))
	})
}
