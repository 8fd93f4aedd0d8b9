package main

import (
	"strconv"

	"github.com/anishathalye/porcupine"
)

// A call as it was made.
type request struct {
	kind            string // read, write, remove, increment
	argument        string
	demand          string // "", must-exist, must-not-exist, version
	demandedVersion uint64
}

// What was answered. Without an answer the call can take any effect that it may have in the state in which it is put.
type answer struct {
	answered bool
	status   string
	version  uint64
	result   string
}

// object is the state of one key. Which version an unanswered call made is not known until somebody is told it: then
// version is the least that it can have, and the first answer that names one fixes it.
type object struct {
	exists  bool
	value   string
	version uint64 // of the object, or the highest there was before it was removed
	atLeast bool   // version is only a lower bound
}

var model = porcupine.Model{
	Init: func() interface{} { return object{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		return step(state.(object), input.(request), output.(answer))
	},
}

func step(now object, call request, told answer) (bool, object) {
	if !told.answered {
		return true, afterUnanswered(now, call)
	}
	switch told.status {
	case "NotFound":
		return !now.exists && (call.kind == "read" || call.demand == "must-exist" || call.demand == "version"), now
	case "ObjectExists":
		ok, fixed := now.withVersion(told.version)
		return ok && call.demand == "must-not-exist", fixed
	case "WrongVersion":
		ok, fixed := now.withVersion(told.version)
		return ok && call.demand == "version" && told.version != call.demandedVersion, fixed
	case "Ok":
		return stepOk(now, call, told)
	}
	return false, now
}

func stepOk(now object, call request, told answer) (bool, object) {
	switch call.demand {
	case "must-exist":
		if !now.exists {
			return false, now
		}
	case "must-not-exist":
		if now.exists {
			return false, now
		}
	case "version":
		ok, fixed := now.withVersion(call.demandedVersion)
		if !ok {
			return false, now
		}
		now = fixed
	}
	switch call.kind {
	case "read":
		ok, fixed := now.withVersion(told.version)
		return ok && now.value == told.result, fixed
	case "write":
		return told.version > now.version, object{exists: true, value: call.argument, version: told.version}
	case "increment":
		sum := now.plus(call.argument)
		return sum == told.result && told.version > now.version, object{exists: true, value: sum, version: told.version}
	case "remove":
		if !now.exists {
			return told.version == 0, now
		}
		ok, fixed := now.withVersion(told.version)
		fixed.exists, fixed.value = false, ""
		return ok, fixed
	}
	return false, now
}

// Whether it happened is decided by where it is put: at the very end it is as if it had not.
func afterUnanswered(now object, call request) object {
	switch call.demand {
	case "must-exist":
		if !now.exists {
			return now
		}
	case "must-not-exist":
		if now.exists {
			return now
		}
	case "version":
		ok, fixed := now.withVersion(call.demandedVersion)
		if !ok {
			return now
		}
		now = fixed
	}
	switch call.kind {
	case "write":
		return object{exists: true, value: call.argument, version: now.version + 1, atLeast: true}
	case "increment":
		return object{exists: true, value: now.plus(call.argument), version: now.version + 1, atLeast: true}
	case "remove":
		now.exists, now.value = false, ""
		return now
	}
	return now
}

// withVersion tells whether the object exists and can have this version, and the state in which it does.
func (now object) withVersion(version uint64) (bool, object) {
	if !now.exists || version < now.version || (version > now.version && !now.atLeast) {
		return false, now
	}
	now.version, now.atLeast = version, false
	return true, now
}

// plus is the value of a counter after an addition; one that is not there counts as 0.
func (now object) plus(delta string) string {
	value, _ := strconv.ParseInt(now.value, 10, 64)
	add, _ := strconv.ParseInt(delta, 10, 64)
	return strconv.FormatInt(value+add, 10)
}
