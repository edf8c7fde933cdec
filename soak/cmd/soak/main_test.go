package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/outbound-go/outbound/soak"
)

func TestMain(m *testing.M) {
	soak.RunChild()
	m.Run()
}

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		args string
		live bool
		want []string
	}{
		{"-for 1s -c 8 -seed 3", false, []string{"payments  ", "heap  ", "round 1 of 1", "after reconciliation"}},
		{"-kills 3", true, []string{"3 of 3 kills", "orders not charged once             0"}},
		{"-hosts 500", false, []string{"calls                            2500 to 500 hosts", "every third host fails"}},
		{"-cancels 50", false, []string{"calls in flight                    50", "HTTP/2 over TLS"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tt.args), display{w: &stdout, live: tt.live}, &stderr)
			if code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit status %d, stderr %q, stdout:\n%s", code, &stderr, &stdout)
			}
			for _, want := range append(tt.want, "Every promise was kept.") {
				if !strings.Contains(stdout.String(), want) {
					t.Errorf("no %q in:\n%s", want, &stdout)
				}
			}
			if strings.Contains(stdout.String(), "\r") != tt.live {
				t.Errorf("carriage returns only, and always, on a terminal:\n%q", &stdout)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"-for 0s", 2, "-for is 0s; it must be between 1s and 24h"},
		{"-for -1s", 2, "-for is -1s; it must be between 1s and 24h"},
		{"-for soon", 2, `invalid value "soon" for flag -for`},
		{"-c 0", 2, "-c is 0; it must be between 1 and 1000"},
		{"-c 1001", 2, "-c is 1001; it must be between 1 and 1000"},
		{"-seed -1", 2, `invalid value "-1" for flag -seed`},
		{"-kills 0", 2, "-kills is 0; it must be between 1 and 100000"},
		{"-hosts -5", 2, "-hosts is -5; it must be between 1 and 100000"},
		{"-kills 5 -cancels 5", 2, "three different things"},
		{"-kills 5 -for 5s", 2, "they mean nothing with -kills"},
		{"15s", 2, `unexpected argument "15s"`},
		{"-x", 2, "flag provided but not defined: -x"},
		{"-h", 0, "how long to make payments"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), strings.Fields(tt.args), display{w: &stdout}, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
				t.Errorf("exit status %d, want %d; stderr %q, want %q; stdout %q", code, tt.code, &stderr, tt.want, &stdout)
			}
		})
	}
}
