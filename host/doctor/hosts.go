package doctor

import "fmt"

func judgeHosts(f Facts) []Finding {
	var all []Finding
	same := 0
	for _, h := range f.Hosts {
		where := "on stdio"
		if h.URL != "" {
			where = "at " + h.URL
		}
		says := fmt.Sprintf("host %.12s runs %s, pid %d, with %s", h.ID, where, h.PID, h.Config)
		if h.Same && h.URL != "" {
			same++
		}
		switch {
		case h.Same && !h.Current:
			all = append(all, warning("", says+", and is of version "+h.Version, "restart it to run what is installed now"))
		case h.Same && same > 1:
			all = append(all, warning("", says+": another one of this configuration", "end one of them; each has servers of its own"))
		default:
			all = append(all, ok("", says))
		}
	}
	if len(f.Hosts) == 0 {
		all = append(all, ok("", "no host is running"))
	}
	return append(all, judgeListen(f.Listen, f.Hosts)...)
}

func judgeListen(l *Listen, hosts []Host) []Finding {
	switch {
	case l == nil:
		return nil
	case l.Wrong != "":
		return []Finding{problem(l.Address, l.Wrong, "set another address as host.http.listen; ports below 1024 need root on most systems")}
	case !l.Busy:
		return []Finding{ok(l.Address, "free")}
	}
	for _, h := range hosts {
		switch {
		case h.ID != l.Holder:
		case h.Same:
			return []Finding{ok(l.Address, fmt.Sprintf("taken by the host of this configuration, pid %d", h.PID))}
		default:
			return []Finding{problem(l.Address, fmt.Sprintf("taken by the host of %s, pid %d", h.Config, h.PID),
				"end that host, or set another address as host.http.listen in one of the two")}
		}
	}
	return []Finding{problem(l.Address, "taken by a program that is no host of yours",
		"stop what listens there, or set another address as host.http.listen")}
}
