#!/usr/bin/env python3
"""Walks every interleaving of one key and the return of its tablet, with all deaths (docs/migration.md, Returning).

The tablet was handed over from S to D, and its contents are on their way to D, when the operator takes the move back. D
is frozen, the tablet is handed back to S, and what D has changed follows: by a priority pull or by the bulk pull. S has
kept what it had, so most of the contents are there at once; but what D has changed is older at S, and must not be shown.
Clients write and remove the key at whoever answers. Cleaners drop what is dead. Any moment S, D or both may die. If D
dies, S goes on serving what has come back while it replays D's log, entry by entry in any order, over what it has.

hand_over_model.py walks the way there. Checked in every state:
  - an answer shows what was acknowledged
  - if S dies, D's index with S's log is what was acknowledged; if D dies, S's index with D's log; if both die, both logs
  - when the list of logs is S alone again, S's log is what was acknowledged
"""

from collections import namedtuple

import exploration

RULES = {
    "ceiling above living keys": "S's versions begin above every version of the tablet at D, not only above those of new keys",
    "overwrites above the ceiling": "what is written while the contents are in two logs is above the other server's ceiling, also "
    "where it overwrites: by that a change at D is told from what came from S",
    "what is there is old": "after the return an entry counts as new if its version is above D's ceiling, or if it has come back",
    "tombstones come back": "a pull brings what D has removed, too",
    "changes come back": "a pull brings what D has written",
    "the source anchors, too": "a remove at S logs a second tombstone that S's cleaner keeps while the contents are in two logs",
    "tombstone stays in the index": "while the contents are in two logs, a removed key keeps its tombstone in S's index",
    "D first": "S answers when D does not any more",
    "the newer entry wins": "an entry that comes back does not replace a newer one",
    "join before the list shrinks": "D's log is named until all that has come back is in S's log",
    "a survivor keeps what it has": "the server that lives replays over its own entries, and purges nothing",
    "both logs": "if both die, both logs are replayed together",
    "what has come back is not undone": "what S has of a key that has come back is not replaced by what D's log has of it",
}

# The stored steps: what c is in a world, and whose logs the list names and who owns the tablet, as the document says it.
STEPS = {
    "Arriving": ("handed", "source, destination; destination"),
    "Returning": ("returning", "source, destination; source"),
    "GivingUp": ("back", "source; source"),
}

# An entry: kind O (object) or T (tombstone), version, whether it names the anchor.
# ceiling: S's when it handed over: D's own versions begin there. ceiling_back: D's when it handed back.
# arrived: D has all; back: S has all. known: the key alone has come back. answer: of a priority pull that is under way.
# left: what S has still to replay of D's log. killed: up to which version the key is dead by what was replayed.
World = namedtuple("World", "c s d s_index s_log s_side d_index d_log d_side arrived back known answer left killed ceiling "
                   "ceiling_back acked new_s new_d ops")
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
    # No object; one; one that was overwritten. D has just been given the tablet. Other keys have made the ceiling higher.
    for version in (None, 1, 3):
        log = frozenset({("O", version, False)}) if version else frozenset()
        ceiling = 5
        yield World("handed", "lent", "answers", ("O", version) if version else None, log, frozenset(), None, frozenset(),
                    frozenset(), False, False, False, None, None, 0, ceiling, 0, version, 2, ceiling, 0)


def check(w, on):
    def want(what, found):
        if found != w.acked:
            raise exploration.Violation(what, f"version {found} is recovered, {w.acked} was acknowledged")

    if w.c == "back":
        return want("S dies", replayed(w.s_log))
    if w.d != "dead":
        keeps = "a survivor keeps what it has" in on
        want("S dies", over(w.d_index if keeps else None, w.s_log))
        want("D dies", over(w.s_index if keeps else None, w.d_log))
    return want("both die", replayed(w.s_log | w.d_log if "both logs" in on else w.s_log))


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


def is_new(w, on):
    """Whether S may show what it has of the key, after the return."""
    if w.known or w.back:
        return True
    if "what is there is old" not in on:
        return w.s_index is not None
    return w.s_index is not None and w.s_index[1] >= w.ceiling_back


def answers_of(w, on):
    if w.d in ("answers", "frozen") and (w.d_index or w.arrived):
        yield "D", shown(w.d_index)
    if w.s in ("answers", "replays") and is_new(w, on):
        yield "S", shown(w.s_index)


def above(version, ceiling, on):
    """The ceiling is the first version that is new: those below it are the other server's."""
    return max(version, ceiling) if "overwrites above the ceiling" in on else version


def clients(w, on):
    if w.ops == OPS:
        return
    if w.d == "answers":
        old = shown(w.d_index)
        v = old + 1 if old else max(w.new_d, w.d_index[1] + 1 if w.d_index else 0)
        v = above(v, w.ceiling, on)
        yield "D writes", w._replace(d_index=("O", v), d_log=w.d_log | {("O", v, False)}, acked=v,
                                     new_d=w.new_d if old else max(w.new_d, v) + 1, ops=w.ops + 1)
        if old:
            yield "D removes", w._replace(d_index=("T", old), d_log=w.d_log | {("T", old, False), ("T", old, True)},
                                          acked=None, new_d=max(w.new_d, old + 1), ops=w.ops + 1)
    if w.s in ("answers", "replays"):
        # Without a condition it goes at once, as if there were no such key, unless what is there is new.
        old = shown(w.s_index) if is_new(w, on) else None
        v = old + 1 if old else max(w.new_s, w.s_index[1] + 1 if w.s_index else 0)
        v = above(v, w.ceiling_back, on) if w.c == "returning" else v
        yield "S writes", w._replace(s_index=("O", v), s_log=w.s_log | {("O", v, False)}, acked=v,
                                     new_s=w.new_s if old else max(w.new_s, v) + 1, ops=w.ops + 1)
        if old:
            added = {("T", old, False)}
            if w.c == "returning" and "the source anchors, too" in on:
                added.add(("T", old, True))
            stays = w.c == "returning" and "tombstone stays in the index" in on
            yield "S removes", w._replace(s_index=("T", old) if stays else None, s_log=w.s_log | added, acked=None,
                                          new_s=max(w.new_s, old + 1), ops=w.ops + 1)


def arrival(w):
    if w.c != "handed":
        return
    if w.d in ("answers", "frozen") and not w.arrived:
        after = w._replace(arrived=True)
        version = shown(w.s_index)
        if version and (w.d_index is None or w.d_index[1] < version):
            after = after._replace(d_index=("O", version), d_side=w.d_side | {("O", version, False)})
        yield "the bulk pull of D comes", after
    if w.d_side and w.d in ("answers", "frozen"):
        yield "the side log of D joins", w._replace(d_log=w.d_log | w.d_side, d_side=frozenset())


def sent_back(w, on):
    """What D answers of the key: what it has written itself, or removed. What it has from S is at S."""
    if w.d_index is None:
        return None
    kind, version = w.d_index
    if kind == "T":
        return w.d_index if "tombstones come back" in on else None
    return w.d_index if version >= w.ceiling and "changes come back" in on else None


def taken_back(w, entry, on):
    if entry is None:
        return w
    kind, version = entry
    is_newer = w.s_index is None or w.s_index[1] < version or (w.s_index == ("O", version) and kind == "T")
    if not is_newer and "the newer entry wins" in on:
        return w
    if kind == "T" and not (w.s_index and w.s_index[0] == "O"):
        return w  # nothing of S's is removed by it
    return w._replace(s_index=entry, s_side=w.s_side | {(kind, version, False)})


def give_back(w, on):
    if w.c == "handed" and w.d == "answers":
        yield "D is frozen", w._replace(d="frozen")
    if w.c == "handed" and w.d == "frozen":
        yield "the return is given up", w._replace(d="answers")
        ceiling = w.new_d
        if "ceiling above living keys" in on:
            ceiling = max(ceiling, w.d_index[1] + 1 if w.d_index else 0)
        # What D has pulled and not in its log yet stays S's.
        yield "the return is stored", w._replace(c="returning", ceiling_back=ceiling, new_s=max(w.new_s, ceiling),
                                                 d_side=frozenset())
    if w.c == "returning" and w.d == "frozen":
        yield "D lends", w._replace(d="lent")
    if w.c == "returning" and w.s == "lent" and (w.d == "lent" or "D first" not in on):
        yield "S answers", w._replace(s="answers")
    if w.c == "returning" and w.s == "answers" and w.d == "lent" and not w.back:
        if w.answer is None and not w.known:
            yield "D answers a priority pull", w._replace(answer=(sent_back(w, on),))
        yield "the bulk pull comes back", taken_back(w, sent_back(w, on), on)._replace(back=True)
    if w.answer is not None and w.s == "answers":
        yield "the answer comes back", taken_back(w, w.answer[0], on)._replace(known=True, answer=None)
    if w.s_side and w.s == "answers":
        yield "the side log of S joins", w._replace(s_log=w.s_log | w.s_side, s_side=frozenset())
    if w.c == "returning" and w.s == "answers" and w.back and (not w.s_side or "join before the list shrinks" not in on):
        yield "the list shrinks", over_at_source(w)


def over_at_source(w):
    return w._replace(c="back", s="answers", d="gone", d_index=None, d_log=frozenset(), d_side=frozenset(), back=True,
                      answer=None, left=None, s_index=w.s_index if shown(w.s_index) else None)


def death_of_destination(w, on):
    if w.c == "returning" and w.s == "answers" and w.d == "lent":
        yield "D dies", w._replace(d="dead", s="replays", left=w.d_log, d_index=None, answer=None)
    if w.s != "replays":
        return
    for entry in w.left:
        kind, version, _ = entry
        after = w._replace(left=w.left - {entry})
        if (w.known or w.back) and "what has come back is not undone" in on:
            yield "S leaves an entry out", after
        elif kind == "T":
            after = after._replace(killed=max(w.killed, version))
            if w.s_index and w.s_index[0] == "O" and w.s_index[1] <= version:
                after = after._replace(s_index=("T", w.s_index[1]), s_side=w.s_side | {("T", w.s_index[1], False)})
            yield "S replays a tombstone", after
        elif version > w.killed and (w.s_index is None or w.s_index[1] < version):
            yield "S replays an object", after._replace(s_index=("O", version), s_side=w.s_side | {("O", version, False)})
        else:
            yield "S replays an object that is dead", after
    if not w.left:
        yield "the replay joins and the list shrinks", over_at_source(
            w._replace(s_log=w.s_log | w.s_side, s_side=frozenset()))


def cleaners(w):
    two = w.c != "back"
    # What is dead in a log may have been replaced by an entry of its side log, and keeps dead what lies there.
    for log in dropped(w.s_log | w.s_side, lambda entry: entry in w.s_side or (entry[2] and two)):
        yield "S cleans", w._replace(s_log=log - (w.s_side - w.s_log))
    if w.d in ("answers", "frozen", "lent"):
        for log in dropped(w.d_log | w.d_side, lambda entry: entry in w.d_side or (entry[2] and two)):
            yield "D cleans", w._replace(d_log=log - (w.d_side - w.d_log))


def steps(w, on):
    check(w, on)
    for who, version in answers_of(w, on):
        if version != w.acked:
            raise exploration.Violation(f"{who} answers", f"version {version} is shown, {w.acked} was acknowledged")
    for kind in (clients(w, on), arrival(w), give_back(w, on), death_of_destination(w, on), cleaners(w)):
        yield from kind


def covered(worlds):
    return {
        "D died before anything came back": sum(w.s == "replays" and not w.known and not w.back for w in worlds),
        "D died when the key had come back": sum(w.s == "replays" and w.known for w in worlds),
        "removed at D, not known at S yet": sum(w.c == "returning" and not w.known and not w.back and bool(w.d_index)
                                                and w.d_index[0] == "T" and shown(w.s_index) is not None for w in worlds),
        "removed at S before the list was one": sum(w.c == "returning" and bool(w.s_index) and w.s_index[0] == "T"
                                                    and w.s_index[1] >= w.ceiling_back for w in worlds),
        "over": sum(w.c == "back" for w in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
