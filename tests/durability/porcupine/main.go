// Command porcupine judges a journal of durability_oracle with the linearizability checker Porcupine: it looks for an
// order of all calls of a key in which every answer is right and which keeps to what ended before what began.
//
//	porcupine [-timeout 10m] JOURNAL...
//
// Exit code 0: every key of every journal has such an order; 1: a key has none, or none was found in time; 2: a journal
// cannot be read.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

func main() {
	timeout := flag.Duration("timeout", 10*time.Minute, "of each journal")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: porcupine [-timeout DURATION] JOURNAL...")
		os.Exit(2)
	}
	code := 0
	for _, path := range flag.Args() {
		history, err := load(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		verdict := check(history, *timeout)
		for _, line := range verdict.wrong {
			fmt.Printf("%s: %s\n", path, line)
			code = 1
		}
		fmt.Printf("%s: %d calls of %d keys, %d unanswered, %d keys not linearizable\n", path, verdict.calls,
			len(history), verdict.unanswered, len(verdict.wrong))
	}
	os.Exit(code)
}

type verdict struct {
	calls      int
	unanswered int
	wrong      []string
}

// check judges key by key, so that a wrong one can be named. What is left of the time is for the keys that are left.
func check(history map[string][]porcupine.Operation, timeout time.Duration) verdict {
	keys := make([]string, 0, len(history))
	for key := range history {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	result := verdict{}
	deadline := time.Now().Add(timeout)
	for _, key := range keys {
		operations := history[key]
		result.calls += len(operations)
		for _, operation := range operations {
			if operation.Return == open {
				result.unanswered++
			}
		}
		left := time.Until(deadline)
		if left <= 0 {
			left = time.Nanosecond // 0 would be without a limit
		}
		switch porcupine.CheckOperationsTimeout(model, operations, left) {
		case porcupine.Illegal:
			result.wrong = append(result.wrong, "key "+key+": no order explains the answers")
		case porcupine.Unknown:
			result.wrong = append(result.wrong, "key "+key+": no order was found in time")
		}
	}
	return result
}
