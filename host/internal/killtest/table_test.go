//go:build linux

package killtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Who is killed, by SIGKILL. Of two the first goes first in even rounds and last in
// odd ones.
var victims = []string{"host", "guard", "plugin", "server", "host+guard", "guard+plugin", "plugin+server"}

// When it happens.
var phases = []string{"start", "idle", "call", "stop"}

// tiers are what Linux has, in the words of the configuration.
var tiers = []string{"pidns", "subreaper"}

// nobody is the user who owns nothing.
const nobody = 65534

// users are those that the tests can be: root is both.
func users() []int {
	if os.Getuid() == 0 {
		return []int{0, nobody}
	}
	return []int{os.Getuid()}
}

// rounds is how often each cell is played for each user: KILLTEST_ROUNDS says it.
// Without it CI plays 112 rounds a tier and user, and who builds 28.
func rounds(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("KILLTEST_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if os.Getenv("CI") != "" {
		return 4
	}
	return 1
}

type cell struct{ tier, phase, victim string }

func (c cell) hits(who string) bool { return strings.Contains(c.victim, who) }

// both says that nobody is left to clean up: what a subreaper's tree leaves then is
// the next start's to end.
func (c cell) both() bool { return c.victim == "host+guard" && c.tier == "subreaper" }

// score counts what was played.
type score struct {
	mu      sync.Mutex
	played  map[string]map[cell]int // by user
	left    map[string]map[cell]int
	slowest time.Duration // from a host's death to an empty tree
	latest  time.Duration // from a kill below a call to its error
}

func newScore() *score {
	return &score{played: map[string]map[cell]int{}, left: map[string]map[cell]int{}}
}

func (s *score) add(user string, c cell, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.played[user] == nil {
		s.played[user], s.left[user] = map[cell]int{}, map[cell]int{}
	}
	s.played[user][c]++
	s.left[user][c] += left
}

func (s *score) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slowest = max(s.slowest, d)
}

func (s *score) answered(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = max(s.latest, d)
}

// table is what CI prints: lines that begin with a bar are the report of a test. A tier that the machine refuses has no rounds.
func (s *score) table() string {
	var b strings.Builder
	row := func(c cell, numbers func(uid int) (played, left any)) {
		fmt.Fprintf(&b, "| %-10s | %-14s | %-6s |", c.tier, c.victim, c.phase)
		for _, uid := range users() {
			played, left := numbers(uid)
			fmt.Fprintf(&b, " %12v | %9v |", played, left)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	row(cell{"tier", "phase", "victim"}, func(uid int) (any, any) { return fmt.Sprintf("rounds@%d", uid), "survivors" })
	for _, tier := range tiers {
		total := map[int][2]int{}
		for _, victim := range victims {
			for _, phase := range phases {
				c := cell{tier, phase, victim}
				row(c, func(uid int) (any, any) {
					played, left := s.played[fmt.Sprint(uid)][c], s.left[fmt.Sprint(uid)][c]
					total[uid] = [2]int{total[uid][0] + played, total[uid][1] + left}
					return played, left
				})
			}
		}
		row(cell{tier, "all", "all"}, func(uid int) (any, any) { return total[uid][0], total[uid][1] })
	}
	fmt.Fprintf(&b, "| slowest from the death of a host to an empty tree: %v, of 5 s\n", s.slowest.Round(time.Millisecond))
	fmt.Fprintf(&b, "| slowest from a kill below a call to the error of the call: %v, of 1 s\n", s.latest.Round(time.Millisecond))
	return b.String()
}

// No process outlives its host, or its instance its successor's start, whoever is
// killed, whenever, in every tier, as every user; and nobody else is touched.
func TestNothingIsLeft(t *testing.T) {
	score := newScore()
	t.Run("lanes", func(t *testing.T) {
		for _, uid := range users() {
			for _, tier := range tiers {
				t.Run(fmt.Sprintf("%s,uid=%d", tier, uid), func(t *testing.T) {
					t.Parallel()
					playLane(t, score, tier, uid)
				})
			}
		}
	})
	t.Log(score.table())
}

// playLane plays every cell of a tier as one user, in a random order.
func playLane(t *testing.T, score *score, tier string, uid int) {
	l := newLane(t, score, tier, uid)
	var cells []cell
	for range rounds(t) {
		for _, phase := range phases {
			for _, victim := range victims {
				cells = append(cells, cell{tier, phase, victim})
			}
		}
	}
	rand.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	for i, c := range cells {
		began := time.Now()
		left := l.play(c, i)
		score.add(fmt.Sprint(uid), c, left)
		if testing.Verbose() {
			t.Logf("%3d/%d %-6s %-14s left %d, %v", i+1, len(cells), c.phase, c.victim, left, time.Since(began).Round(time.Millisecond))
		}
		if t.Failed() {
			t.Fatalf("after round %d of %d: %+v", i+1, len(cells), c)
		}
	}
	l.finish()
}
