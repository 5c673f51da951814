package front

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
)

// artifactsPath is where artifacts are read over plain HTTP: /artifacts/ID.
const artifactsPath = "/artifacts/"

// artifactOf is the id in a path, "" for every other path.
func (p public) artifactOf(path string) string {
	if rest, cut := strings.CutPrefix(path, p.prefix); cut && p.prefix != "" {
		path = rest
	}
	id, ok := strings.CutPrefix(path, artifactsPath)
	if !ok {
		return ""
	}
	return id
}

// serveArtifact gives a principal one of his artifacts, with ranges and conditions as
// HTTP has them (RFC 9110, sections 13 and 14). The ETag is the SHA-256 of the whole.
// It never shows in a browser as a page: what a server made is not ours to vouch for.
func (h *web) serveArtifact(w *reply, r *http.Request, id string) {
	principal, err := h.guard.principal(r)
	if err != nil {
		h.guard.refuse(w, r, "", err)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.text(http.StatusMethodNotAllowed, "only GET and HEAD")
		return
	}
	if !h.enter() {
		w.text(http.StatusServiceUnavailable, errClosed.Error())
		return
	}
	defer h.requests.Done()
	defer w.extend() // for what net/http itself writes at the end
	leave, full := h.place(w)
	if leave == nil {
		w.text(http.StatusServiceUnavailable, full)
		return
	}
	defer leave()
	if h.opts.Artifacts == nil {
		w.text(http.StatusNotFound, "no such artifact")
		return
	}
	f, record, err := h.opts.Artifacts.Reader(principal, id)
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		w.text(http.StatusNotFound, "no such artifact")
		return
	case err != nil:
		h.log.Warn("an artifact could not be given", "error", err)
		w.text(http.StatusInternalServerError, "the artifact could not be read")
		return
	}
	defer f.Close()
	// Who has nothing any more where it comes from could not read it over MCP either.
	if _, ok := h.guard.gate.Project(principal, record.Origin.Project); !ok {
		w.text(http.StatusNotFound, "no such artifact")
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentType(record.MIME))
	header.Set("ETag", `"`+record.SHA256+`"`)
	header.Set("Cache-Control", "private, no-cache")
	header.Set("Content-Disposition", "attachment")
	header.Set("X-Content-Type-Options", "nosniff")
	// What net/http takes for a mistake is none (RFC 9110, sections 14.1 and 14.1.2): a unit
	// that is not known is ignored, and the last no bytes are none to give.
	switch asked := r.Header.Get("Range"); {
	case !strings.HasPrefix(asked, "bytes="):
		r.Header.Del("Range")
	case strings.Trim(strings.TrimPrefix(asked, "bytes="), " \t") == "-0":
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", record.Size))
		w.text(http.StatusRequestedRangeNotSatisfiable, "the range is outside of the artifact")
		return
	}
	http.ServeContent(w, r, "", time.Time{}, f)
}

// contentType is a type as it can stand in a header: a server may have called it
// anything.
func contentType(given string) string {
	if _, _, err := mime.ParseMediaType(given); err != nil || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "application/octet-stream"
	}
	return given
}
