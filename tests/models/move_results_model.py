#!/usr/bin/env python3
"""Walks the results of calls through a move of a tablet and all deaths (docs/migration.md): no call runs twice.

One key, two calls that write it, each repeated by its client, which has not seen an answer. An object carries the result of
the call that wrote it; when it is overwritten, the result gets a record of its own in the same log. The source S is frozen,
the destination D takes the results over into a side log, the tablet is handed over, the object follows, the side log joins,
the list of logs shrinks. At any moment after the hand-over D may die, or both; from D's first answer on S, too; and the survivor while it replays.
Whoever goes on has to recognise what has run. (Before the hand-over it is an ordinary recovery.)
"""

from collections import namedtuple

import exploration

RULES = {
    "frozen first": "results are taken over when the source takes no mutations any more",
    "results before answers": "D has the results before it answers",
    "an overwrite leaves a record": "who overwrites an object gives the result that it carries a record in the same group",
    "S keeps its results": "the source keeps the results of what it has lent until the list of logs is one",
    "a survivor keeps results": "whoever replays over its own objects gives the results that they carry records",
    "those are at the head": "these records are in the survivor's log at once, not in the side log, which may never join",
    "what a log carries counts": "a replay takes the results that objects carry, dead or alive",
    "join before the list shrinks": "S's log is named until the side log, with the results, is in D's log",
}

# An entry of a log: ("O", version, the call whose result it carries) or ("R", 0, call).
# c: prep: the list is S; handed: S and D; shrunk: D; replay: a survivor (its state is in the s_ fields, its side log in
# d_side) replays the dead server's log (in d_log) over its own; one: whoever is left after a death (in the s_ fields).
# s, d: what each does. adopted: D has the results. arrived: D has the object. ran: the calls that have run.
# object: (version, call it carries or None); results: calls that are recognised.
World = namedtuple("World", "c s d s_object s_results s_log d_object d_results d_log d_side adopted arrived ran ops")
CALLS = ("a", "b")
OPS = 4
NONE = (0, None)


def beginnings(on):
    yield World("prep", "serves", "none", NONE, frozenset(), frozenset(), NONE, frozenset(), frozenset(), frozenset(), False,
                False, frozenset(), 0)


def run(call, w):
    if call in w.ran:
        raise exploration.Violation(f"call {call} is repeated", "it runs again")
    return w.ran | {call}


def written(call, obj, log, results, on):
    """The object, log and results after a write."""
    added = {("O", obj[0] + 1, call)}
    if obj[1] and "an overwrite leaves a record" in on:
        added.add(("R", 0, obj[1]))
    if obj[1] and "an overwrite leaves a record" not in on:
        log = frozenset(entry for entry in log if entry[2] != obj[1])  # the cleaner drops the dead object
    return (obj[0] + 1, call), log | added, results | {call}


def clients(w, on):
    if w.ops == OPS:
        return
    for call in CALLS:
        if w.s == "serves":
            if call in w.s_results:
                yield f"S recognises {call}", w._replace(ops=w.ops + 1)
            else:
                obj, log, results = written(call, w.s_object, w.s_log, w.s_results, on)
                yield f"S runs {call}", w._replace(s_object=obj, s_log=log, s_results=results, ran=run(call, w), ops=w.ops + 1)
        if w.d == "answers":
            if call in w.d_results:
                yield f"D recognises {call}", w._replace(ops=w.ops + 1)
            else:
                # Above the ceiling, whether the object has arrived or not.
                base = (max(w.d_object[0], w.s_object[0]), w.d_object[1])
                obj, log, results = written(call, base, w.d_log, w.d_results, on)
                yield f"D runs {call}", w._replace(d_object=obj, d_log=log, d_results=results, ran=run(call, w), ops=w.ops + 1)


def move(w, on):
    if w.c == "prep" and w.s == "serves":
        yield "S is frozen", w._replace(s="frozen")
    if w.c == "prep" and not w.adopted and (w.s == "frozen" or ("frozen first" not in on and w.s == "serves")):
        side = frozenset(("R", 0, call) for call in w.s_results)
        yield "D takes the results over", w._replace(adopted=True, d_results=w.s_results, d_side=side)
    if w.c == "prep" and w.s == "frozen" and (w.adopted or "results before answers" not in on):
        yield "the hand-over is stored, S lends", w._replace(
            c="handed", s="lent", s_results=w.s_results if "S keeps its results" in on else frozenset())
    if w.c == "handed" and w.s == "lent" and w.d == "none":
        yield "D answers", w._replace(d="answers")
    if w.d == "answers" and w.s == "lent" and not w.arrived:
        # The object comes without what it carries.
        obj = w.d_object if w.d_object[0] >= w.s_object[0] else (w.s_object[0], None)
        yield "the object arrives", w._replace(d_object=obj, arrived=True)
    if w.d == "answers" and w.d_side:
        yield "the side log joins", w._replace(d_log=w.d_log | w.d_side, d_side=frozenset())
    if w.c == "handed" and w.arrived and w.s == "lent" and (not w.d_side or "join before the list shrinks" not in on):
        yield "the list shrinks", w._replace(c="shrunk", s="gone", s_object=NONE, s_results=frozenset(), s_log=frozenset())


def results_of(log, on):
    return frozenset(call for kind, _, call in log if call and (kind == "R" or "what a log carries counts" in on))


def alone(w, obj, results, log):
    return w._replace(c="one", s="serves", d="dead", s_object=obj, s_results=results, s_log=log, d_object=NONE,
                      d_results=frozenset(), d_log=frozenset(), d_side=frozenset())


def third(w, both, on):
    records = frozenset(("R", 0, call) for call in results_of(both, on))
    return alone(w, (newest(both)[0], None), results_of(both, on), records | {("O", newest(both)[0], None)})


def newest(log):
    return max([(version, call) for kind, version, call in log if kind == "O"], default=NONE, key=lambda obj: obj[0])


def replayed_over(w, obj, results, own_log, log, on):
    """A survivor has replayed another log over its own object, into a side log."""
    results = results | results_of(log, on)
    side = frozenset(("R", 0, call) for call in results_of(log, on))
    other = newest(log)
    if other[0] > obj[0]:
        side |= {("O", other[0], None)}
        if obj[1] and "a survivor keeps results" in on:
            record = frozenset({("R", 0, obj[1])})
            own_log, side = (own_log | record, side) if "those are at the head" in on else (own_log, side | record)
        elif obj[1] and ("R", 0, obj[1]) not in log:
            results -= {obj[1]}
        # The cleaner drops the object that has died.
        own_log = frozenset(entry for entry in own_log if entry[0] != "O" or entry[1] != obj[0])
        obj = (other[0], None)
    return w._replace(c="replay", s="replays", d="dead", s_object=obj, s_results=results, s_log=own_log, d_object=NONE,
                      d_results=frozenset(), d_log=log, d_side=side)


def deaths(w, on):
    if w.c == "handed" and w.s == "lent":
        yield "D dies, S replays its log", replayed_over(w, w.s_object, w.s_results, w.s_log, w.d_log, on)
        yield "both die, a third server replays both logs", third(w, w.s_log | w.d_log, on)
    if w.c == "handed" and w.s == "lent" and w.d == "answers":
        # Its first side log joins before it replays.
        yield "S dies, D replays its log", replayed_over(w, w.d_object, w.d_results, w.d_log | w.d_side, w.s_log, on)
    if w.c == "replay":
        yield "the side log of the survivor joins", alone(w, w.s_object, w.s_results, w.s_log | w.d_side)
        yield "the survivor dies, too, a third server replays both logs", third(w, w.s_log | w.d_log, on)
    if w.c == "shrunk":
        yield "D dies, another server replays its log", alone(
            w, (newest(w.d_log)[0], None), results_of(w.d_log, on),
            frozenset(("R", 0, call) for call in results_of(w.d_log, on)))


def steps(w, on):
    for kind in (clients(w, on), move(w, on), deaths(w, on)):
        yield from kind


def covered(worlds):
    return {
        "D ran a call before the object came": sum(w.d == "answers" and not w.arrived and bool(w.d_object[1]) for w in worlds),
        "results in the side log alone": sum(bool(w.d_side - w.d_log) and w.d == "answers" for w in worlds),
        "a survivor that replays": sum(w.c == "replay" for w in worlds),
        "a death": sum(w.c == "one" for w in worlds),
        "both calls ran, and the move was over": sum(w.c == "shrunk" and len(w.ran) == 2 for w in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
