#!/usr/bin/env python3
"""Walks how the log of a dead server is read again after a survivor has read it (docs/recovery.md, "What a survivor has
read").

D has died while its tablet's contents were in the logs of S and D. S lives and replays D's log over its own; what it has
replayed stays, whatever becomes of the attempt. Then S has all of it and answers; or another attempt of S begins; or S dies,
and T replays both logs. Machines go away and come back meanwhile. What they have of D's log differs in one of two ways:

  tail  the replicas of D's last segment differ in length: some lack the last call, an increment, which was not acknowledged.
        The client repeats it until it is answered. Checked: the counter has been incremented once then.
  ends  some machines have a later end of the log. Its digest lists no segment of the key any more: the cleaner has found the
        object dead, and the tombstone not needed. The earlier digest lists both. Checked: the key stays removed.
"""

from collections import namedtuple

import exploration

RULES = {
    "what was read is read again": "a replica that ends before what a survivor was told to read does not count any more",
    "the end stays the end": "after a survivor was told where the log ends, no other end counts",
    "stored before it is sent": "how far a survivor is to read is stored before it is told to",
}

MACHINES = 3
ATTEMPTS = 3

# tail: the counter as it was acknowledged, what the last call made of it, and the result of that call.
ACKNOWLEDGED = ("counter", 0)
TAIL = [("counter", 1), ("result", 1)]
# ends: what the earlier digest lists.
REMOVED = [("object", 5), ("tombstone", 5)]

# has: what each machine has: tail: 1: a replica with the last call; ends: 1: the later end. there: the machines that can be
# read. read: what survivors were told to read, as stored: None, 0 or 1. owed: as S was told, while that is not stored. s:
# waits for an attempt, reads, dead, serves. left: what S has still to replay. s_has: in S's log and memory. t: none, serves.
World = namedtuple("World", "kind has there read owed s left s_has t attempts")


def beginnings(on):
    for kind in ("tail", "ends"):
        for code in range(1, 2 ** MACHINES):
            has = tuple(code >> machine & 1 for machine in range(MACHINES))
            yield World(kind, has, (True,) * MACHINES, None, None, "waits", (), frozenset(), "none", 0)


def entries(kind, what):
    if kind == "ends":
        return [] if what else REMOVED
    return [ACKNOWLEDGED, *(TAIL if what else [])]


def readable(w, on):
    """What may be read, of the machines that are there."""
    for machine in range(MACHINES):
        what = w.has[machine]
        if not w.there[machine]:
            continue
        if w.kind == "tail" and "what was read is read again" in on and what < (w.read or 0):
            continue
        if w.kind == "ends" and "the end stays the end" in on and w.read is not None and what != w.read:
            continue
        yield what


def answered(what, w, found):
    """The client asks again, or reads."""
    if w.kind == "ends":
        if ("object", 5) in found and ("tombstone", 5) not in found:
            raise exploration.Violation(what, "the key is there, and its removal was acknowledged")
        return
    value = max(value for kind, value in found if kind == "counter")
    final = value if ("result", 1) in found else value + 1
    if final != 1:
        raise exploration.Violation(what, f"the counter is {final} after one increment")


def stored(w, what):
    """What was stored, after S is told to read this."""
    return what if w.kind == "ends" else max(w.read or 0, what)


def steps(w, on):
    for machine in range(MACHINES):
        if w.there[machine] and sum(w.there) > 1:
            yield f"machine {machine} goes away", w._replace(there=w.there[:machine] + (False,) + w.there[machine + 1:])
        if not w.there[machine]:
            yield f"machine {machine} is back", w._replace(there=w.there[:machine] + (True,) + w.there[machine + 1:])
    yield from survivor(w, on)
    if w.s == "dead" and w.t == "none":
        for what in sorted(set(readable(w, on))):
            answered("T answers", w, w.s_has | set(entries(w.kind, what)))
            yield "T answers", w._replace(t="serves")


def survivor(w, on):
    if w.s == "waits" and w.attempts < ATTEMPTS:
        for what in sorted(set(readable(w, on))):
            begun = w._replace(s="reads", left=tuple(entries(w.kind, what)), attempts=w.attempts + 1)
            if "stored before it is sent" in on:
                yield f"S is to read {what}", begun._replace(read=stored(w, what))
            else:
                yield f"S is to read {what}", begun._replace(owed=what)
    if w.owed is not None:
        yield "the coordinator stores that", w._replace(read=stored(w, w.owed), owed=None)
        yield "another coordinator begins", w._replace(owed=None, s="waits" if w.s == "reads" else w.s, left=())
    if w.s == "reads":
        for entry in w.left:
            yield f"S replays {entry}", w._replace(s_has=w.s_has | {entry}, left=tuple(e for e in w.left if e != entry))
        yield "the attempt fails", w._replace(s="waits", left=())
        if not w.left:
            answered("S answers", w, w.s_has)
            yield "S answers", w._replace(s="serves")
    if w.s in ("waits", "reads"):
        yield "S dies", w._replace(s="dead", left=())


def covered(worlds):
    tails = [w for w in worlds if w.kind == "tail"]
    ends = [w for w in worlds if w.kind == "ends"]
    return {
        "S has replayed a part of a longer replica": sum(
            w.s == "dead" and bool(w.s_has & set(TAIL)) and not set(TAIL) <= w.s_has for w in tails),
        "a shorter replica is there alone": sum(
            w.read == 1 and not any(n and there for n, there in zip(w.has, w.there)) for w in tails),
        "a longer one is read later": sum(w.read == 1 and w.attempts > 1 for w in tails),
        "S has the object alone": sum(w.s == "dead" and w.s_has == {REMOVED[0]} for w in ends),
        "a later end is there alone": sum(
            w.read == 0 and all(n or not there for n, there in zip(w.has, w.there)) for w in ends),
        "T answers": sum(w.t == "serves" for w in worlds),
        "S answers": sum(w.s == "serves" for w in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
