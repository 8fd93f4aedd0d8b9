package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// open is the end of a call without a certain answer: it may take effect at any time after its start.
const open = math.MaxInt64

type line struct {
	Call            uint64 `json:"call"`
	Client          int    `json:"client"`
	Start           *int64 `json:"start"`
	Kind            string `json:"kind"`
	Key             string `json:"key"`
	Argument        string `json:"argument"`
	Demand          string `json:"demand"`
	DemandedVersion uint64 `json:"demanded_version"`
	End             int64  `json:"end"`
	Status          string `json:"status"`
	Version         uint64 `json:"version"`
	Result          string `json:"result"`
}

// load gives the calls of a journal by key. Left out are calls that had no effect and tell nothing: reads without an
// answer, and mutations of which the client says that they did not happen and will not. If one of these did happen, its
// effect is found and nothing explains it.
func load(path string) (map[string][]porcupine.Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	begun := map[uint64]line{}
	history := map[string][]porcupine.Operation{}
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		text, err := reader.ReadBytes('\n')
		if err == io.EOF {
			break // a line without its end was cut off
		}
		if err != nil {
			return nil, err
		}
		var read line
		if err := json.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("%s, line %d: %v", path, number, err)
		}
		if read.Start != nil {
			begun[read.Call] = read
			continue
		}
		begin, found := begun[read.Call]
		if !found {
			return nil, fmt.Errorf("%s, line %d: a call ends that did not begin", path, number)
		}
		delete(begun, read.Call)
		addEnded(history, begin, read)
	}
	for _, begin := range begun {
		addOpen(history, begin)
	}
	return history, nil
}

func addEnded(history map[string][]porcupine.Operation, begin, end line) {
	switch end.Status {
	case "OutcomeUnknown":
		addOpen(history, begin)
	case "Ok", "NotFound", "ObjectExists", "WrongVersion":
		told := answer{answered: true, status: end.Status, version: end.Version, result: end.Result}
		add(history, begin, told, end.End)
	}
}

func addOpen(history map[string][]porcupine.Operation, begin line) {
	if begin.Kind != "read" {
		add(history, begin, answer{}, open)
	}
}

func add(history map[string][]porcupine.Operation, begin line, told answer, end int64) {
	call := request{begin.Kind, begin.Argument, begin.Demand, begin.DemandedVersion}
	history[begin.Key] = append(history[begin.Key], porcupine.Operation{
		ClientId: begin.Client, Input: call, Call: *begin.Start, Output: told, Return: end})
}
