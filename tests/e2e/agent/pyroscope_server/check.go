// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

// Defaults of Pyroscope's limits.
const (
	maxLabels       = 30
	maxLabelName    = 1024
	maxLabelValue   = 2048
	maxProfileBytes = 4 << 20 // uncompressed
	maxSamples      = 16000
	maxSampleLabels = 100
	maxAge          = time.Hour
	maxFuture       = 10 * time.Minute
)

// What a profile contains.
type summary struct {
	Totals        map[string]int64 `json:"totals"` // of each sample type
	Samples       int              `json:"samples"`
	Bytes         int              `json:"bytes"` // uncompressed
	TimeNanos     int64            `json:"time_nanos"`
	DurationNanos int64            `json:"duration_nanos"`
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func check(labels []*typesv1.LabelPair, sample *pushv1.RawSample, now time.Time) (summary, error) {
	if err := checkLabels(labels); err != nil {
		return summary{}, invalid(err)
	}
	if !uuid.MatchString(sample.ID) {
		return summary{}, invalid(fmt.Errorf("%q is not a UUID", sample.ID))
	}
	raw, err := uncompressed(sample.RawProfile)
	if err != nil {
		return summary{}, invalid(err)
	}
	found := summary{Bytes: len(raw)}
	p, err := profile.ParseUncompressed(raw)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return found, invalid(err)
	}
	found.Samples, found.TimeNanos, found.DurationNanos = len(p.Sample), p.TimeNanos, p.DurationNanos
	found.Totals = map[string]int64{}
	for i, sampleType := range p.SampleType {
		found.Totals[sampleType.Type] = 0 // also of a profile without samples
		for _, s := range p.Sample {
			found.Totals[sampleType.Type] += s.Value[i]
		}
	}
	for _, rule := range []func(*profile.Profile) error{checkTypes, checkSizes, checkTexts, checkIDs} {
		if err := rule(p); err != nil {
			return found, invalid(err)
		}
	}
	if at := time.Unix(0, p.TimeNanos); p.TimeNanos != 0 && (at.Before(now.Add(-maxAge)) || at.After(now.Add(maxFuture))) {
		return found, invalid(fmt.Errorf("the time %s is outside of the ingestion window", at))
	}
	return found, nil
}

func invalid(err error) error {
	return connect.NewError(connect.CodeInvalidArgument, err)
}

func labelBytes(labels []*typesv1.LabelPair) (sum int) {
	for _, label := range labels {
		sum += len(label.Name) + len(label.Value)
	}
	return sum
}

func checkLabels(labels []*typesv1.LabelPair) error {
	values := map[string]string{}
	previous := ""
	if len(labels) > maxLabels {
		return fmt.Errorf("%d labels", len(labels))
	}
	for _, label := range labels {
		switch {
		case label.Name == "" || len(label.Name) > maxLabelName || !utf8.ValidString(label.Name):
			return fmt.Errorf("label name %q", label.Name)
		case len(label.Value) > maxLabelValue || !utf8.ValidString(label.Value):
			return fmt.Errorf("value of label %q", label.Name)
		case label.Name == previous:
			return fmt.Errorf("label %q twice", label.Name)
		case label.Name < previous: // Pyroscope sorts; we promise to
			return fmt.Errorf("label %q is not in order", label.Name)
		}
		previous = label.Name
		values[label.Name] = label.Value
	}
	if values["__name__"] != "memory" {
		return fmt.Errorf("__name__ is %q", values["__name__"])
	}
	if values["service_name"] == "" {
		return errors.New("no service_name")
	}
	return nil
}

func uncompressed(raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(io.LimitReader(reader, maxProfileBytes+1))
	if err == nil && len(all) > maxProfileBytes {
		err = fmt.Errorf("more than %d bytes uncompressed", maxProfileBytes)
	}
	return all, err
}

func checkTypes(p *profile.Profile) error {
	if p.PeriodType == nil || p.PeriodType.Type != "space" || p.PeriodType.Unit != "bytes" {
		return errors.New("period_type is not space in bytes: the page would not find the profile")
	}
	for _, sampleType := range p.SampleType {
		if strings.Contains(sampleType.Type, "-") {
			return fmt.Errorf("sample type %q", sampleType.Type)
		}
	}
	return nil
}

func checkSizes(p *profile.Profile) error {
	if len(p.Sample) > maxSamples {
		return fmt.Errorf("%d samples", len(p.Sample))
	}
	for _, s := range p.Sample {
		if len(s.Label)+len(s.NumLabel) > maxSampleLabels {
			return errors.New("too many labels of a sample")
		}
	}
	return nil
}

func checkTexts(p *profile.Profile) error {
	texts := append([]string{p.DropFrames, p.KeepFrames, p.DefaultSampleType}, p.Comments...)
	for _, sampleType := range append(p.SampleType, p.PeriodType) {
		texts = append(texts, sampleType.Type, sampleType.Unit)
	}
	for _, f := range p.Function {
		texts = append(texts, f.Name, f.SystemName, f.Filename)
	}
	for _, m := range p.Mapping {
		texts = append(texts, m.File, m.BuildID)
	}
	for _, s := range p.Sample {
		for key, values := range s.Label {
			texts = append(append(texts, key), values...)
		}
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q is not UTF-8", text)
		}
	}
	return nil
}

// Parca refuses other ids than 1..n in order.
func checkIDs(p *profile.Profile) error {
	for i, f := range p.Function {
		if f.ID != uint64(i+1) {
			return fmt.Errorf("function id %d", f.ID)
		}
	}
	for i, l := range p.Location {
		if l.ID != uint64(i+1) {
			return fmt.Errorf("location id %d", l.ID)
		}
	}
	for i, m := range p.Mapping {
		if m.ID != uint64(i+1) {
			return fmt.Errorf("mapping id %d", m.ID)
		}
	}
	return nil
}

// The limit of a tenant's rate: a request larger than the burst is never accepted.
type bucket struct {
	rate, burst, full float64
	at                time.Time
}

func (b *bucket) take(bytes int, now time.Time) bool {
	if b.rate == 0 {
		return true
	}
	b.full = min(b.burst, b.full+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	if float64(bytes) > b.full {
		return false
	}
	b.full -= float64(bytes)
	return true
}
