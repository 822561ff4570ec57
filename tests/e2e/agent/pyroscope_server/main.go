// SPDX-License-Identifier: Apache-2.0

// The push side of Pyroscope for tests: its published API (push.v1), with the limits that its documentation and source state, and no
// store. Each profile is decoded and validated; what was accepted or refused is appended to a file as a line of JSON. It can fail in
// the ways that a real one does: see faults.go.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

type server struct {
	pushv1connect.UnimplementedPusherServiceHandler
	token, user, password, tenant *string

	lock   sync.Mutex // protects what follows
	out    *os.File
	seen   map[string]bool // ids of accepted profiles
	bucket bucket
}

// One profile, as a line of the file.
type record struct {
	Labels    map[string]string `json:"labels"`
	ID        string            `json:"id"`
	Tenant    string            `json:"tenant"`
	Duplicate bool              `json:"duplicate"` // a profile with this id was accepted before
	Refused   string            `json:"refused,omitempty"`
	summary
}

func (s *server) write(r record) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = s.out.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Each series on its own, as the distributor does: others may be accepted although one is refused.
func (s *server) push(tenant string, series *pushv1.RawProfileSeries) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	r := record{Labels: map[string]string{}, Tenant: tenant}
	for _, label := range series.Labels {
		r.Labels[label.Name] = label.Value
	}
	for _, sample := range series.Samples {
		r.ID = sample.ID
		var err error
		r.summary, err = check(series.Labels, sample, time.Now())
		if err == nil && !s.bucket.take(r.Bytes+labelBytes(series.Labels), time.Now()) {
			err = connect.NewError(connect.CodeResourceExhausted, errors.New("push rate limit exceeded"))
		}
		r.Duplicate = s.seen[r.ID]
		if err != nil {
			r.Refused = err.Error()
			s.write(r)
			return err
		}
		s.seen[r.ID] = true
		s.write(r)
	}
	return nil
}

func (s *server) Push(_ context.Context, req *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	var first error
	if len(req.Msg.Series) == 0 {
		first = connect.NewError(connect.CodeInvalidArgument, errors.New("no profiles received"))
	}
	for _, series := range req.Msg.Series {
		if err := s.push(req.Header().Get("X-Scope-OrgID"), series); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return nil, first
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func equal(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func (s *server) isAuthorized(r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	return (*s.token == "" || equal(r.Header.Get("Authorization"), "Bearer "+*s.token)) &&
		(*s.user == "" || equal(user, *s.user) && equal(password, *s.password)) &&
		(*s.tenant == "" || equal(r.Header.Get("X-Scope-OrgID"), *s.tenant))
}

func (s *server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.isAuthorized(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func run() error {
	s := &server{
		token:    flag.String("token", "", "bearer token that requests must have"),
		user:     flag.String("user", "", "user that requests must have"),
		password: flag.String("password", "", "and its password"),
		tenant:   flag.String("tenant", "", "X-Scope-OrgID that requests must have"),
		seen:     map[string]bool{},
	}
	listen := flag.String("listen", "127.0.0.1:0", "address; the chosen one is printed")
	out := flag.String("out", "/dev/stdout", "file for lines of JSON")
	tlsFolder := flag.String("tls", "", "folder for new certificates: TLS with server.pem; client.pem and client.key")
	wantClient := flag.Bool("client-certificate", false, "requests must have a certificate of that folder")
	rate := flag.Int("rate", 4<<20, "bytes per second, uncompressed; 0: any")
	flag.Parse()

	var err error
	if s.out, err = os.OpenFile(*out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	s.bucket = bucket{rate: float64(*rate), burst: 2 << 20, full: 2 << 20, at: time.Now()}
	faults := &faults{}
	mux := http.NewServeMux()
	path, handler := pushv1connect.NewPusherServiceHandler(s)
	mux.Handle(path, faults.wrap(s.authorized(handler)))
	mux.HandleFunc("/faults", faults.set)

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	scheme := "http"
	if *tlsFolder != "" {
		scheme = "https"
		if listener, err = listenTLS(listener, *tlsFolder, *wantClient); err != nil {
			return err
		}
	}
	fmt.Printf("%s://%s\n", scheme, listener.Addr())
	return http.Serve(listener, mux)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
