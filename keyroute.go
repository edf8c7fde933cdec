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
	rest, r.subtree = strings.CutSuffix(rest, "/")
	if rest == "" {
		r.subtree = true
		return r, nil
	}
	for part := range strings.SplitSeq(rest, "/") {
		name, wild := strings.CutPrefix(part, "{")
		if wild {
			name, wild = strings.CutSuffix(name, "}")
			part = ""
		}
		if name == "" || name == "." || name == ".." || strings.HasSuffix(name, "...") || strings.ContainsAny(name, "{}%?#") || part == "" && !wild {
			return r, fault("Provider.KeyRoutes has %q: between its slashes a pattern has plain text or a {name}", pattern)
		}
		r.parts = append(r.parts, part)
	}
	return r, nil
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
