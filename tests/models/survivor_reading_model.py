#!/usr/bin/env python3
"""Walks how the log of a dead server is read again after a survivor has read it (docs/recovery.md, "What a survivor has
read").

D has died while its tablet's contents were in the logs of S and D. The last call at D, an increment, was not acknowledged:
the replicas of D's open segment differ in length, and some lack it. S lives and replays D's log over its own; what it has
replayed stays, whatever becomes of the attempt. Then S has all of it and answers; or another attempt of S begins; or S dies,
and T replays both logs. Machines go away and come back meanwhile. The client repeats its call until it is answered.

Checked: when the call is answered, the counter has been incremented once.
"""

from collections import namedtuple

import exploration

RULES = {
    "what was read is read again": "a replica that ends before what a survivor was told to read does not count any more",
    "stored before it is sent": "how far a survivor is to read is stored before it is told to",
}

MACHINES = 3
ATTEMPTS = 3

# The entries of D's open segment, in order: the counter as it was acknowledged, what the last call made of it, and the
# result of that call.
ACKNOWLEDGED = ("counter", 0)
TAIL = [("counter", 1), ("result", 1)]

# lengths: of the replica on each machine, in calls of the tail. there: the machines that can be read. least: how far a
# reading has to go, as stored. owed: as S was told, while that is not stored. s: reads, asks for another attempt, dead,
# serves. left: what S has still to replay. s_has: in S's log and memory. t: T reads, serves.
World = namedtuple("World", "lengths there least owed s left s_has t attempts")


def beginnings(on):
    for code in range(1, 2 ** MACHINES):
        lengths = tuple(code >> machine & 1 for machine in range(MACHINES))
        yield World(lengths, (True,) * MACHINES, 0, None, "waits", (), frozenset(), "none", 0)


def entries(length):
    return [ACKNOWLEDGED, *(TAIL if length else [])]


def readable(w, on):
    """The lengths of the replicas that count."""
    for machine in range(MACHINES):
        is_enough = w.lengths[machine] >= w.least or "what was read is read again" not in on
        if w.there[machine] and is_enough:
            yield w.lengths[machine]


def answered(what, found):
    """The client asks again."""
    value = max(value for kind, value in found if kind == "counter")
    final = value if ("result", 1) in found else value + 1
    if final != 1:
        raise exploration.Violation(what, f"the counter is {final} after one increment")


def steps(w, on):
    for machine in range(MACHINES):
        if w.there[machine] and sum(w.there) > 1:
            yield f"machine {machine} goes away", w._replace(there=w.there[:machine] + (False,) + w.there[machine + 1:])
        if not w.there[machine]:
            yield f"machine {machine} is back", w._replace(there=w.there[:machine] + (True,) + w.there[machine + 1:])
    yield from survivor(w, on)
    if w.s == "dead" and w.t == "none":
        for length in sorted(set(readable(w, on))):
            answered("T answers", w.s_has | set(entries(length)))
            yield "T answers", w._replace(t="serves")


def survivor(w, on):
    if w.s == "waits" and w.attempts < ATTEMPTS:
        for length in sorted(set(readable(w, on))):
            begun = w._replace(s="reads", left=tuple(entries(length)), attempts=w.attempts + 1)
            if "stored before it is sent" in on:
                yield f"S is to read {length}", begun._replace(least=max(w.least, length))
            else:
                yield f"S is to read {length}", begun._replace(owed=length)
    if w.owed is not None:
        yield "the coordinator stores that", w._replace(least=max(w.least, w.owed), owed=None)
        yield "another coordinator begins", w._replace(owed=None, s="waits" if w.s == "reads" else w.s, left=())
    if w.s == "reads":
        for entry in w.left:
            yield f"S replays {entry}", w._replace(s_has=w.s_has | {entry}, left=tuple(e for e in w.left if e != entry))
        yield "the attempt fails", w._replace(s="waits", left=())
        if not w.left:
            answered("S answers", w.s_has)
            yield "S answers", w._replace(s="serves")
    if w.s in ("waits", "reads"):
        yield "S dies", w._replace(s="dead", left=())


def covered(worlds):
    return {
        "S has replayed a part of a longer replica": sum(
            w.s == "dead" and bool(w.s_has & set(TAIL)) and not set(TAIL) <= w.s_has for w in worlds),
        "a shorter replica is there alone": sum(
            w.least == 1 and not any(n and there for n, there in zip(w.lengths, w.there)) for w in worlds),
        "a longer one is read later": sum(w.least == 1 and w.attempts > 1 for w in worlds),
        "T answers": sum(w.t == "serves" for w in worlds),
        "S answers": sum(w.s == "serves" for w in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
