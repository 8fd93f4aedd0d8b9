package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The planted histories say in their names what to think of them: right-*.ndjson and wrong-*.ndjson.
func TestPlantedHistories(t *testing.T) {
	paths, err := filepath.Glob("../planted/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	right, wrong := 0, 0
	for _, path := range paths {
		name := filepath.Base(path)
		history, err := load(path)
		if err != nil {
			t.Fatal(err)
		}
		found := check(history, time.Minute).wrong
		if strings.HasPrefix(name, "right-") {
			right++
			if len(found) != 0 {
				t.Errorf("%s is refused: %v", name, found)
			}
			continue
		}
		wrong++
		if len(found) != 1 || !strings.HasPrefix(found[0], "key planted:") && !strings.HasPrefix(found[0], "key counter:") {
			t.Errorf("%s: its key is not named: %v", name, found)
		}
	}
	if right < 10 || wrong < 20 {
		t.Errorf("only %d right and %d wrong histories", right, wrong)
	}
}
