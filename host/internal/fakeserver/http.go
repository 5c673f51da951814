package fakeserver

func (s *server) serveHTTP() int { return exitUsage }
