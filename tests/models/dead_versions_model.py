#!/usr/bin/env python3
"""A log that is replayed segment by segment: how long has what a tombstone says to be kept in mind, so that nothing comes back?

One key of a server that writes, overwrites, removes, rolls its head, and cleans: a pass copies what is alive from candidates to a
survivor, entry by entry, while writes go on; the next head's digest replaces the one by the other. At any moment the server is dead.
Then another one replays the segments of the newest digest, in any order, each once, its entries newest first or oldest first. It
has an index, in which the newest object is that it has met, and notes: what is dead up to some version, and until when that is kept.
(In the product the index holds the key's object in a side log, without the segment that it named.)

Each object that took the place of another names the segment in which that lay, and so does each tombstone; what the cleaner
drops and copies of both is in docs/cleaning.md. Forbidden: the replay ends with another object than the one that was alive.
"""

import sys
from typing import NamedTuple

import exploration
from exploration import Violation

sys.dont_write_bytecode = True

RULES = {
    "notes-what-is-to-come": "a tombstone is noted while the segment that it names is still to be replayed",
    "notes-through-the-segment": "also while that segment is being replayed",
    "notes-the-unlisted": "one that names a segment which is not in the plan is noted to the end: it may be a survivor that no digest lists "
                          "yet, and what it killed lies in a candidate as well",
    "hands-on": "an object that is left out because of a note, and names a segment, lends the note its own time: it was all that held its "
                "predecessor down",
    "hands-on-the-unlisted": "the same, to the end, where that segment is not in the plan",
    "notes-what-it-takes-out": "a tombstone that takes an object out of the index is noted to the end: what that object, and those before it, "
                               "held down is not known any more",
}

OBJECT, TOMBSTONE = "object", "tombstone"
END = 99  # in a note: until the end of the replay


class Entry(NamedTuple):
    kind: str
    version: int
    names: int = 0  # a segment; 0: none


class World(NamedTuple):
    # The server's log.
    segments: tuple  # (id, entries), ascending
    listed: tuple  # by the digest of the newest head
    head: int
    next_id: int
    version: int  # the highest that was handed out
    alive: tuple  # (version, segment), or empty
    writes: int  # left
    rolls: int
    passes: int
    # A pass: candidates whose entries are left to be looked at, the survivor, and the candidates.
    left: tuple = ()
    survivor: int = 0
    candidates: tuple = ()
    # The replay.
    pending: tuple = ()  # segments that are to come, with the one that is replayed now; None before
    now: tuple = ()  # (segment, entries left)
    index: int = 0
    notes: tuple = ()  # (dead up to this version, segment until whose end it is kept)
    is_dead: bool = False
    forgot: bool = False  # a tombstone was not noted, or not to the end


def beginnings(on):
    yield World(segments=((1, ()),), listed=(1,), head=1, next_id=2, version=0, alive=(), writes=3, rolls=2, passes=0)
    # As it may be after much else: three versions of one key in segments that stay.
    yield World(segments=((1, (Entry(OBJECT, 1),)), (2, (Entry(OBJECT, 2, 1),)), (3, ())), listed=(1, 2, 3), head=3, next_id=4, version=2,
                alive=(2, 2), writes=2, rolls=1, passes=1)


def contents(world, segment):
    return next(entries for one, entries in world.segments if one == segment)


def with_entry(world, segment, entry):
    return world._replace(segments=tuple((one, entries + (entry,) if one == segment else entries) for one, entries in world.segments))


def steps(world, on):
    if world.is_dead:
        yield from replay(world, on)
        return
    if world.writes:
        yield from writes(world)
    if world.rolls and not world.survivor:
        yield "the head is rolled", rolled(world)
    if world.rolls and world.survivor:
        yield "the head is rolled during the pass", rolled(world)
        if not world.left:
            yield "the pass ends with a head that lists its survivor", passed(world)
    if world.passes and not world.survivor:
        closed = [one for one in world.listed if one != world.head]
        for first, one in enumerate(closed):
            for chosen in [(one,)] + [(one, other) for other in closed[first + 1:]]:
                yield f"a pass over {chosen} begins", begun(world, chosen)
    if world.left:
        yield "an entry is looked at by the cleaner", looked_at(world)
    yield "the server is dead", world._replace(is_dead=True, pending=world.listed)


def writes(world):
    names = world.alive[1] if world.alive else 0
    version = world.version + 1
    written = with_entry(world, world.head, Entry(OBJECT, version, names))
    yield f"version {version} is written", written._replace(version=version, alive=(version, world.head), writes=world.writes - 1)
    if world.alive:
        removed = with_entry(world, world.head, Entry(TOMBSTONE, world.alive[0], names))
        yield f"version {world.alive[0]} is removed", removed._replace(alive=(), writes=world.writes - 1)


def rolled(world):
    head = world.next_id
    return world._replace(segments=world.segments + ((head, ()),), listed=world.listed + (head,), head=head, next_id=head + 1, rolls=world.rolls - 1)


def begun(world, chosen):
    survivor = world.next_id
    left = tuple((one, entry) for one in chosen for entry in contents(world, one))
    return world._replace(segments=world.segments + ((survivor, ()),), survivor=survivor, candidates=chosen, left=left, next_id=survivor + 1,
                          passes=world.passes - 1)


def looked_at(world):
    """As docs/cleaning.md has it: what names a segment that stays is kept, by a tombstone where the object itself is dead."""
    (segment, entry), left = world.left[0], world.left[1:]
    world = world._replace(left=left)
    stays = entry.names in world.listed and entry.names not in world.candidates
    if entry.kind == TOMBSTONE:
        return with_entry(world, world.survivor, entry) if stays else world
    if world.alive == (entry.version, segment):
        moved = with_entry(world, world.survivor, entry if stays else entry._replace(names=0))
        return moved._replace(alive=(entry.version, world.survivor))
    return with_entry(world, world.survivor, Entry(TOMBSTONE, entry.version - 1, entry.names)) if stays else world


def passed(world):
    listed = tuple(one for one in world.listed if one not in world.candidates) + (world.survivor,)
    segments = tuple((one, entries) for one, entries in world.segments if one not in world.candidates)
    return rolled(world._replace(segments=segments, listed=listed, survivor=0, candidates=()))


# --- what another server makes of it

def replay(world, on):
    if world.now:
        segment, entries = world.now
        if entries:
            yield f"{entries[0]} of segment {segment}", replayed(world._replace(now=(segment, entries[1:])), segment, entries[0], on)
            return
        # Notes that were kept until this segment are forgotten.
        yield f"segment {segment} is done", world._replace(now=(), pending=tuple(one for one in world.pending if one != segment),
                                                           notes=tuple(note for note in world.notes if note[1] != segment))
        return
    for segment in world.pending:
        entries = contents(world, segment)
        for order in {entries, entries[::-1]}:
            yield f"segment {segment} is replayed", world._replace(now=(segment, order))
    if not world.pending:
        right = world.alive[0] if world.alive else 0
        if world.index != right:
            raise Violation("the replay ends", f"with version {world.index}, where {right} was alive")


def until(world, segment, now, on, to_come, unlisted):
    """How long something has to be kept that holds down what lies in this segment; 0: not at all."""
    if segment not in world.listed:
        return END if segment and unlisted in on else 0
    if segment == now:
        return segment if "notes-through-the-segment" in on else 0
    return segment if segment in world.pending and to_come in on else 0


def noted(world, version, segment):
    """Each key has one note: the highest version, and the latest end. Which that is depends on the order, so all are kept here."""
    if not segment:
        return world._replace(forgot=True)
    return world._replace(notes=tuple(sorted(set(world.notes + ((version, segment),)))), forgot=world.forgot or segment != END)


def replayed(world, segment, entry, on):
    held = [version for version, _ in world.notes if version >= entry.version]
    if entry.kind == OBJECT:
        if world.index >= entry.version:
            return world
        if not held:
            return world._replace(index=entry.version)
        keep = until(world, entry.names, segment, on, "hands-on", "hands-on-the-unlisted")
        return noted(world, max(held), keep) if keep else world
    if world.index > entry.version:
        return world
    if world.index:
        world = world._replace(index=0)
        if "notes-what-it-takes-out" in on:
            return noted(world, entry.version, END)
    return noted(world, entry.version, until(world, entry.names, segment, on, "notes-what-is-to-come", "notes-the-unlisted"))


def covered(worlds):
    done = [world for world in worlds if world.is_dead and not world.pending]
    return {
        "replayed to the end": len(done),
        "nothing was alive": sum(not world.alive for world in done),
        "something was not kept to the end": sum(world.forgot for world in done),
        "dead during a pass": sum(world.survivor > 0 for world in done),
        "dead after a pass": sum(any(one in world.listed and one > 1 for one in world.listed if one != world.head) and not world.survivor
                                 for world in done),
    }


if __name__ == "__main__":
    exploration.run(__name__)
