#!/usr/bin/env python3
"""Walks every interleaving of one key and one move of its tablet, with all deaths (docs/migration.md).

The source S is frozen, the tablet is handed over to the destination D, and its contents follow: by a priority pull or by
the bulk pull. Clients write and remove the key at whoever answers. Cleaners drop what is dead. Any moment S, D or both
may die: what would be recovered then has to be what was acknowledged. If S dies, D goes on serving what has arrived
while it replays S's log, entry by entry in any order, over what it has.

Checked in every state:
  - an answer shows what was acknowledged
  - if S dies, D's index with S's log is what was acknowledged; if D dies, S's index with D's log; if both die, both logs
  - when the list of logs is D alone, D's log is what was acknowledged
"""

from collections import namedtuple

import exploration

RULES = {
    "ceiling above living keys": "D's versions begin above every version of the tablet, not only above those of new keys",
    "anchor": "while the contents are in two logs, a remove at D logs a second tombstone that D's cleaner keeps",
    "tombstone stays in the index": "while the contents are in two logs, a removed key keeps its tombstone in D's index",
    "wait for arrival": "a key that is not in D's index and has not arrived is waited for",
    "S first": "D answers when S does not any more",
    "the newer entry wins": "a pulled entry does not replace a newer one",
    "join before the list shrinks": "S's log is named until all that was pulled is in D's log",
    "a survivor keeps what it has": "the server that lives replays over its own entries, and purges nothing",
    "both logs": "if both die, both logs are replayed together",
    "close before the replay": "what has not arrived is not served while S's log is replayed",
    "late answers are thrown away": "an answer of S that comes when the replay has begun is not taken",
    "what is served is not replayed": "entries of keys that have arrived are left out of the replay",
}

# The stored steps: what c is in a world, and whose logs the list names and who owns the tablet, as the document says it.
STEPS = {
    "Preparing": ("prep", "source; source"),
    "Freezing": ("prep", "source; source"),
    "Arriving": ("handed", "source, destination; destination"),
    "Arrived": ("shrunk", "destination; destination"),
}

# An entry: kind O (object) or T (tombstone), version, whether it names the anchor.
# c: who is listed: prep: S, S owns; handed: S and D, D owns; shrunk: D. answer: of a priority pull that is under way.
# left: what D has still to replay of S's log. killed: up to which version the key is dead by what was replayed.
World = namedtuple("World", "c s d s_index s_log d_index d_log d_side arrived known answer left killed acked new_s new_d ops")
OPS = 4


def replayed(entries):
    """What is left of a log, or of several: in any order, by version."""
    dead = max([v for kind, v, _ in entries if kind == "T"], default=0)
    return max([v for kind, v, _ in entries if kind == "O" and v > dead], default=None)


def over(index, entries):
    return replayed(set(entries) | ({(index[0], index[1], False)} if index else set()))


def shown(index):
    return index[1] if index and index[0] == "O" else None


def beginnings(on):
    # No object; one; one that was overwritten: its version is above those that new keys get.
    for version in (None, 1, 3):
        log = frozenset({("O", version, False)}) if version else frozenset()
        index = ("O", version) if version else None
        yield World("prep", "serves", "none", index, log, None, frozenset(), frozenset(), False, False, None, None, 0,
                    version, 2, 1, 0)


def check(w, on):
    def want(what, found):
        if found != w.acked:
            raise exploration.Violation(what, f"version {found} is recovered, {w.acked} was acknowledged")

    if w.c == "prep":
        want("S dies", replayed(w.s_log))
    elif w.c == "handed" and w.s != "dead":
        want("S dies", over(w.d_index, w.s_log))
        want("D dies", over(w.s_index if "a survivor keeps what it has" in on else None, w.d_log))
        want("both die", replayed(w.s_log | w.d_log if "both logs" in on else w.d_log))
    elif w.c == "handed":
        want("D dies, too", replayed(w.s_log | w.d_log))
    else:
        want("D dies", replayed(w.d_log))


def dropped(log, keeps):
    """The logs that are one step of a cleaner away."""
    for entry in log:
        if keeps(entry):
            continue
        kind, version, _ = entry
        others = log - {entry}
        if kind == "O":
            may_go = any(v > version or (k == "T" and v == version) for k, v, _ in others)
        else:
            may_go = not any(k == "O" and v <= version for k, v, _ in others)
        if may_go:
            yield others


def is_known(w):
    return w.arrived or w.known


def answers_of(w, on):
    if w.s in ("serves", "frozen"):
        yield "S", shown(w.s_index)
    if w.d == "answers":
        if w.d_index or is_known(w) or "wait for arrival" not in on:
            yield "D", shown(w.d_index)
    if w.d == "replays":
        if is_known(w) or ("close before the replay" not in on and w.d_index):
            yield "D", shown(w.d_index)


def take(w, version):
    """What a pull brings: the version of S's object, or None. What has been answered stays so."""
    return w._replace(d_index=("O", version), d_side=w.d_side | {("O", version, False)})


def pulled(w, version, on):
    is_newer = w.d_index is None or w.d_index[1] < version if version else False
    if version and (is_newer or "the newer entry wins" not in on):
        return take(w, version)
    return w


def clients(w, on):
    if w.ops == OPS:
        return
    if w.s == "serves":
        old = shown(w.s_index)
        v = old + 1 if old else w.new_s
        yield "S writes", w._replace(s_index=("O", v), s_log=w.s_log | {("O", v, False)}, acked=v,
                                     new_s=w.new_s + (0 if old else 1), ops=w.ops + 1)
        if old:
            yield "S removes", w._replace(s_index=None, s_log=w.s_log | {("T", old, False)}, acked=None,
                                          new_s=max(w.new_s, old + 1), ops=w.ops + 1)
    if w.d == "answers" or (w.d == "replays" and is_known(w)):
        old = shown(w.d_index)
        v = old + 1 if old else max(w.new_d, w.d_index[1] + 1 if w.d_index else 0)
        yield "D writes", w._replace(d_index=("O", v), d_log=w.d_log | {("O", v, False)}, acked=v,
                                     new_d=w.new_d if old else max(w.new_d, v) + 1, ops=w.ops + 1)
        if old:
            added = {("T", old, False)}
            if w.c == "handed" and "anchor" in on:
                added.add(("T", old, True))
            stays = w.c == "handed" and "tombstone stays in the index" in on
            yield "D removes", w._replace(d_index=("T", old) if stays else None, d_log=w.d_log | added, acked=None,
                                          new_d=max(w.new_d, old + 1), ops=w.ops + 1)


def move(w, on):
    if w.c == "prep" and w.s == "serves":
        yield "S is frozen", w._replace(s="frozen")
    if w.c == "prep" and w.s == "frozen":
        ceiling = w.new_s
        if "ceiling above living keys" in on:
            ceiling = max(ceiling, w.s_index[1] + 1 if w.s_index else 0)
        yield "the move is given up", w._replace(s="serves")
        yield "the hand-over is stored", w._replace(c="handed", new_d=max(w.new_d, ceiling))
    if w.c == "handed" and w.s == "frozen":
        yield "S lends", w._replace(s="lent")
    if w.c == "handed" and w.d == "none" and (w.s == "lent" or "S first" not in on):
        yield "D answers", w._replace(d="answers")
    if w.d == "answers" and w.s == "lent" and not w.arrived and w.c == "handed":
        if w.answer is None and not w.known:
            yield "S answers a priority pull", w._replace(answer=(shown(w.s_index),))
        yield "the bulk pull comes", pulled(w, shown(w.s_index), on)._replace(arrived=True)
    if w.answer is not None and (w.d == "answers" or "late answers are thrown away" not in on):
        yield "the answer comes", pulled(w, w.answer[0], on)._replace(known=True, answer=None)
    if w.d_side and w.d == "answers":
        yield "the side log joins", w._replace(d_log=w.d_log | w.d_side, d_side=frozenset())
    if w.c == "handed" and w.d == "answers" and w.arrived and (not w.d_side or "join before the list shrinks" not in on):
        yield "the list shrinks", w._replace(c="shrunk", s="gone", s_index=None, s_log=frozenset(),
                                             d_index=w.d_index if shown(w.d_index) else None, answer=None)


def death_of_source(w, on):
    if w.c == "handed" and w.s == "lent" and w.d == "answers":
        yield "S dies", w._replace(s="dead", d="replays", left=w.s_log)
    if w.d != "replays":
        return
    for entry in w.left or ():
        kind, version, _ = entry
        after = w._replace(left=w.left - {entry})
        if is_known(w) and "what is served is not replayed" in on:
            yield "D leaves an entry out", after
        elif kind == "T":
            after = after._replace(killed=max(w.killed, version))
            if w.d_index and w.d_index[0] == "O" and w.d_index[1] <= version:
                after = after._replace(d_index=None, d_side=w.d_side | {("T", w.d_index[1], False)})
            yield "D replays a tombstone", after
        elif version > w.killed and (w.d_index is None or w.d_index[1] < version):
            yield "D replays an object", take(after, version)
        else:
            yield "D replays an object that is dead", after
    if w.left is not None and not w.left:
        yield "the replay joins and the list shrinks", w._replace(
            c="shrunk", s="gone", s_index=None, s_log=frozenset(), d="answers", arrived=True, left=None, answer=None,
            d_log=w.d_log | w.d_side, d_side=frozenset(), d_index=w.d_index if shown(w.d_index) else None)


def cleaners(w):
    if w.s in ("serves", "frozen", "lent"):
        for log in dropped(w.s_log, lambda entry: False):
            yield "S cleans", w._replace(s_log=log)
    # What is dead in D's log may have been replaced by an entry of its side log, and keeps dead what lies there.
    for log in dropped(w.d_log | w.d_side, lambda entry: entry in w.d_side or (entry[2] and w.c == "handed")):
        yield "D cleans", w._replace(d_log=log - (w.d_side - w.d_log))


def steps(w, on):
    check(w, on)
    for who, version in answers_of(w, on):
        if version != w.acked:
            raise exploration.Violation(f"{who} answers", f"version {version} is shown, {w.acked} was acknowledged")
    for kind in (clients(w, on), move(w, on), death_of_source(w, on), cleaners(w)):
        yield from kind


def covered(worlds):
    return {
        "S died before anything came": sum(w.d == "replays" and not w.known and not w.arrived for w in worlds),
        "S died when the key had come": sum(w.d == "replays" and w.known for w in worlds),
        "a late answer": sum(w.d == "replays" and w.answer is not None for w in worlds),
        "removed at D before it came": sum(w.c == "handed" and bool(w.d_index) and w.d_index[0] == "T" for w in worlds),
        "over": sum(w.c == "shrunk" for w in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
