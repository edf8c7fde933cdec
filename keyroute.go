package outbound

import (
	"net/url"
	"path"
	"strings"
)

// keyRoute is a path pattern of Provider.KeyRoutes. http.ServeMux has the same patterns and more, but whether it takes them for
// patterns is up to a setting of the process, and money is at stake here.
type keyRoute struct {
	parts   []string // between the slashes; empty for any one part
	subtree bool     // and all below
}

// newKeyRoutes reads the patterns, and names all faults.
func newKeyRoutes(patterns []string) (routes []keyRoute, faults []error) {
	for _, pattern := range patterns {
		r, err := newKeyRoute(pattern)
		if err != nil {
			faults = append(faults, err)
		}
		routes = append(routes, r)
	}
	return routes, faults
}

func newKeyRoute(pattern string) (r keyRoute, err error) {
	rest, ok := strings.CutPrefix(pattern, "/")
	if !ok {
		return r, fault("Provider.KeyRoutes has %q: a pattern begins with a slash; methods stand in KeyMethods", pattern)
	}
	if rest == "" {
		return keyRoute{subtree: true}, nil
	}
	rest, r.subtree = strings.CutSuffix(rest, "/")
	for part := range strings.SplitSeq(rest, "/") {
		name, wild := strings.CutPrefix(part, "{")
		switch {
		case wild && isName(strings.TrimSuffix(name, "}")) && strings.HasSuffix(name, "}"):
			part = ""
		case wild || part == "" || part == "." || part == ".." || part[0] == ':' || strings.ContainsAny(part, "{}*%?#"):
			return r, fault("Provider.KeyRoutes has %q: between its slashes a pattern has plain text or a {name}", pattern)
		}
		r.parts = append(r.parts, part)
	}
	return r, nil
}

// isName reports whether s has letters, digits and underscores, and nothing else.
func isName(s string) bool {
	for _, c := range s {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != ""
}

// leadsTo reports whether the URL's path is one that the pattern means. One that a server may read otherwise is none.
func (r keyRoute) leadsTo(u *url.URL) bool {
	if u.RawPath != "" || u.Opaque != "" || !isClean(u.Path) {
		return false
	}
	rest, more := strings.CutPrefix(u.Path, "/")
	for _, want := range r.parts {
		if !more {
			return false
		}
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if part == "" || want != "" && part != want {
			return false
		}
	}
	return more == r.subtree
}

// isClean reports whether a path has no empty part and none of dots.
func isClean(p string) bool {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean == p
}
