#!/usr/bin/env python3
"""Recoveries that find no places for their copies: does everything come back that could, and is nothing given away too early?

All servers were started again, and their storages are nearly full of the logs that are to be recovered. A recovery master takes a
place for each copy of each segment that it writes, one after the other, on any server but its own that has one. When all
have all their copies it says so, the coordinator commits the tablets to it, and only then the places of the old log come free.
One that finds no place gives up after a while. Servers die, for good, and others are added, as many as was said.

A server is ample if it has a place for each segment of a log: then it never refuses one, whatever was placed where before. So as
many ample ones as there are copies, beside the recovery master, are enough for that log. Heads of logs have places of their own
here. The copies are those without which a server does not go on (--min-replicas); further ones make way after some seconds, and
are not in the model.

The environment never destroys the last copy of a segment of a log that waits: that is for --replicas. Forbidden:
- a segment of a log that is to be recovered is on no server, or a tablet is committed whose contents were given back;
- nothing can happen any more, or attempts that began one after the other fail in vain, though the places that are free, or that
  attempts hold, are enough for the smallest log, or what was said to be missing was added. One may, if another log fails for another
  reason.
"""

import sys
from typing import NamedTuple

import exploration
from exploration import Violation

sys.dont_write_bytecode = True

RULES = {
    "gives-up": "an attempt that finds no place ends after a while, instead of waiting for ever",
    "gives-back-all": "one that ends gives back all places that it has taken",
    "none-after-whole": "what was said to be whole is not given back",
    "all-copies": "an attempt is whole when each segment has all copies without which nothing goes on, not some of them",
    "freed-after-commit": "the places of the old log come free when the tablets are committed to the new owner, not when that has them",
    "one-after-another": "once one has failed for want of places, one log is recovered at a time",
    "shortest-first": "the one with the fewest segments first",
    "failed-last": "what has failed then, for whatever reason, lets the others try",
    "master-without-room": "then the recovery master is the server that has the fewest places for the others",
    "says-for-all-copies": "as many servers are said to be missing as there are copies, less those that are ample",
    "says-for-all-logs": "each is said to need places for all that waits, not for one log",
}

COPIES = 2
WAITS, TRIED, WHOLE, BACK = range(4)
NAMES = {WAITS: "waits", TRIED: "is tried", WHOLE: "is whole", BACK: "is back"}


class Log(NamedTuple):
    state: int
    old: tuple  # of each segment the servers that have it: what a recovery reads
    master: int = -1
    new: tuple = ()  # of each segment the servers that have a copy of what the recovery master writes
    failed: int = 0
    is_heard: bool = False  # the coordinator knows that it is whole
    in_turn: bool = False  # the attempt began when one log is recovered at a time
    is_bad: bool = False  # it fails whatever is tried


class World(NamedTuple):
    free: tuple  # places of each server; None: it is gone
    logs: tuple
    kills: int
    adds: bool
    scarce: bool = False
    said: tuple = ()  # how many servers with how many places
    is_added: bool = False
    vain: int = 0  # attempts in turn that failed in a row though there was enough
    leaked: tuple = ()  # places that nobody will ever give back


def beginnings(on):
    # Recovery masters and those that keep copies die.
    yield World((1, 1, 2, 1), (Log(WAITS, ((0, 1),)), Log(WAITS, ((2, 3),))), kills=2, adds=False)
    # Two can be recovered in parallel only if neither takes a place that the other one needs.
    yield World((1, 1, 1), (Log(WAITS, ((1, 2),)), Log(WAITS, ((0, 1), (0, 2)))), kills=0, adds=True)
    # The longer ones do not fit before the shorter one is back.
    yield World((1, 1, 0), (Log(WAITS, ((0, 1), (1, 2))), Log(WAITS, ((0, 1),)), Log(WAITS, ((0, 1), (0, 2)))), kills=0, adds=False)
    # The shortest log is one that cannot be recovered at all.
    yield World((1, 1, 0), (Log(WAITS, ((0, 1),), is_bad=True), Log(WAITS, ((0, 1),)), Log(WAITS, ((1, 2),))), kills=0, adds=False)
    # No log finds enough places: the servers that are asked for are added, then all logs come back.
    yield World((0, 0, 0), (Log(WAITS, ((0, 1),)), Log(WAITS, ((0, 2), (1, 2)))), kills=0, adds=True)
    yield World((1, 0, 0), (Log(WAITS, ((0, 1),)), Log(WAITS, ((1, 2),)), Log(WAITS, ((0, 2),))), kills=0, adds=True)

# --- what there is

def living(world):
    return [server for server, free in enumerate(world.free) if free is not None]


def wanted(world):
    return min(COPIES, len(living(world)) - 1)


def held_by_attempts(world, server):
    return sum(segment.count(server) for log in world.logs if log.state in (TRIED, WHOLE) for segment in log.new)


def remaining(world):
    """What can come back, and is not."""
    return [log for log in world.logs if log.state != BACK and not log.is_bad]


def returnable(world):
    """The places of each server that are free, or would be if all attempts ended."""
    return {server: world.free[server] + held_by_attempts(world, server) + world.leaked.count(server) for server in living(world)}


def ample(world, size, free):
    """Servers with a place for each of so many segments, beside the one with the fewest, which is the recovery master."""
    master = min(living(world), key=lambda server: (free[server], server))
    return sum(free[server] >= size for server in living(world) if server != master)


def suffices(world):
    """For the smallest log that is not back, whatever is placed where."""
    if world.is_added:
        return True
    smallest = min(len(log.old) for log in remaining(world))
    return ample(world, smallest, returnable(world)) >= wanted(world)


def is_written(world, log, on):
    needed = wanted(world) if "all-copies" in on else 1
    return all(len(segment) >= needed for segment in log.new)


def with_log(world, index, log):
    return world._replace(logs=world.logs[:index] + (log,) + world.logs[index + 1:])


def with_places(world, servers, count):
    free = list(world.free)
    for server in servers:
        if free[server] is not None:
            free[server] += count
    return world._replace(free=tuple(free))


def all_holders(segments):
    return [server for segment in segments for server in segment]


# --- the protocol

def protocol(world, on):
    for index, log in enumerate(world.logs):
        if log.state == WAITS:
            yield from begun(world, index, log, on)
        if log.state == TRIED:
            yield from placed(world, index, log)
            if is_written(world, log, on) and not log.is_bad:
                yield f"log {index} is whole", with_log(world, index, log._replace(state=WHOLE))
        if log.state == WHOLE and not log.is_heard:
            yield f"the coordinator hears that log {index} is whole", with_log(world, index, log._replace(is_heard=True))
        if log.state == WHOLE and log.is_heard:
            yield f"log {index} is committed to its new owner", committed(world, index, log)
        if log.old and (log.state == BACK or (log.state == WHOLE and "freed-after-commit" not in on)):
            yield f"the places of the old log {index} come free", freed(world, index, log)
        if log.state == BACK:
            yield from repaired(world, index, log)
    yield from given_up(world, on)


def begun(world, index, log, on):
    masters = living(world)
    if world.scarce:
        if "one-after-another" in on and any(other.state in (TRIED, WHOLE) or (other.state == BACK and other.old) for other in world.logs):
            return
        if not has_turn(world, index, on):
            return
        if "master-without-room" in on:
            masters = [min(masters, key=lambda server: (world.free[server], server))]
    for master in masters:
        # A server has nobody else's copies to give for its own log.
        yield f"server {master} begins with log {index}", with_log(world, index, log._replace(
            state=TRIED, master=master, new=((),) * len(log.old), in_turn=world.scarce))


def has_turn(world, index, on):
    if "one-after-another" not in on:
        return True

    def rank(log):
        return (log.failed if "failed-last" in on else 0, len(log.old) if "shortest-first" in on else -len(log.old))
    return rank(world.logs[index]) == min(rank(log) for log in world.logs if log.state == WAITS)


def placed(world, index, log):
    for number, segment in enumerate(log.new):
        if len(segment) >= wanted(world):
            continue
        for server in living(world):
            if server != log.master and server not in segment and world.free[server] > 0:
                new = log.new[:number] + (tuple(sorted(segment + (server,))),) + log.new[number + 1:]
                yield (f"log {index}, segment {number}: a place on server {server}",
                       with_places(with_log(world, index, log._replace(new=new)), [server], -1))
        return  # segments are written one after the other


def finds_none(world, log):
    return not any(True for _ in placed(world, 0, log)) and not is_written(world, log, RULES)


def given_up(world, on):
    for index, log in enumerate(world.logs):
        if log.state == TRIED and finds_none(world, log) and "gives-up" in on:
            yield f"log {index} finds no places and is given up", failed(world._replace(scarce=True), index, log, on)
        if log.state == TRIED and log.is_bad:
            yield f"log {index} fails for another reason", failed(world, index, log, on)
        if log.state == WHOLE and "none-after-whole" not in on:
            after = with_places(world, all_holders(log.new), 1)
            yield f"log {index} is given up late", with_log(after, index, log._replace(new=()))


def failed(world, index, log, on):
    if not remaining(world):
        return with_places(with_log(world, index, log._replace(state=WAITS, master=-1, new=(), in_turn=False)), all_holders(log.new), 1)
    enough = suffices(world)
    vain = world.vain + 1 if enough and log.in_turn else world.vain
    if vain > sum(one.is_bad for one in world.logs):
        raise Violation(f"log {index} is given up", f"in its turn, though there are enough places; in vain {vain} times")
    back = all_holders(log.new)
    leaked = back[:1] if "gives-back-all" not in on else []
    world = with_places(world, back[len(leaked):], 1)
    world = with_log(world, index, log._replace(state=WAITS, master=-1, new=(), failed=log.failed + log.in_turn, in_turn=False))
    world = rested(world._replace(vain=vain, leaked=tuple(sorted(world.leaked + tuple(leaked)))))
    return world._replace(said=() if enough else what_lacks(world, on))


def rested(world):
    """Only who has failed more often than others matters."""
    least = min(log.failed for log in world.logs if log.state != BACK)
    return world._replace(logs=tuple(log._replace(failed=min(max(log.failed - least, 0), 2)) for log in world.logs))


def what_lacks(world, on):
    """How many servers, and how many places each: as many ample ones as copies, until everything is back."""
    left = [len(log.old) for log in remaining(world)]
    size = sum(left) if "says-for-all-logs" in on else min(left)
    count = COPIES - ample(world, size, returnable(world))
    if "says-for-all-copies" not in on:
        count -= 1
    return (max(count, 1), size)


def committed(world, index, log):
    if not log.new:
        raise Violation(f"log {index} is committed", "though its contents were given back")
    world = with_log(world, index, log._replace(state=BACK, failed=0, in_turn=False))._replace(vain=0)
    # When all are back recoveries go on in parallel again.
    return rested(world) if remaining(world) else world._replace(scarce=False, said=())


def freed(world, index, log):
    return with_places(with_log(world, index, log._replace(old=())), all_holders(log.old), 1)


def repaired(world, index, log):
    """An owner that lives makes copies anew that were lost."""
    for number, segment in enumerate(log.new):
        if len(segment) >= wanted(world):
            continue
        for server in living(world):
            if server != log.master and server not in segment and world.free[server] > 0:
                new = log.new[:number] + (tuple(sorted(segment + (server,))),) + log.new[number + 1:]
                yield (f"log {index}, segment {number} is copied again, to server {server}",
                       with_places(with_log(disturbed(world), index, log._replace(new=new)), [server], -1))


def disturbed(world):
    """Attempts that began in other circumstances may fail."""
    return world._replace(logs=tuple(log._replace(in_turn=False) for log in world.logs), vain=0)


# --- what happens

def steps(world, on):
    any_step = False
    for step in protocol(world, on):
        any_step = True
        yield step
    if not any_step and remaining(world) and suffices(world):
        raise Violation("nothing", "can happen any more, though there are enough places")
    if world.kills:
        for server in living(world):
            if may_die(world, server):
                yield f"server {server} dies", killed(world, server)
    if world.adds and world.said:
        count, size = world.said
        yield (f"{count} servers with {size} places each are added, as was said",
               world._replace(free=world.free + (size,) * count, adds=False, said=(), is_added=True, vain=0))


def may_die(world, server):
    old = [segment for log in world.logs if log.state != BACK for segment in log.old]
    return len(living(world)) > 2 and all(segment != (server,) for segment in old)


def killed(world, server):
    world = disturbed(world)._replace(free=tuple(None if one == server else free for one, free in enumerate(world.free)), kills=world.kills - 1)
    for index, log in enumerate(world.logs):
        def without(segments):
            return tuple(tuple(holder for holder in segment if holder != server) for segment in segments)
        log = log._replace(old=without(log.old), new=without(log.new))
        if log.master == server and log.state in (TRIED, WHOLE):
            # The dead recovery master owned nothing, so its log is not recovered.
            world = with_places(world, all_holders(log.new), 1)
            log = log._replace(state=WAITS, master=-1, new=(), is_heard=False, in_turn=False)
        elif log.master == server:
            world = with_places(world, all_holders(log.old), 1)
            log = Log(WAITS, log.new)
        # An owner that lives writes what was lost again before it says that all is there.
        elif log.state == WHOLE and any(len(segment) == 0 for segment in log.new):
            log = log._replace(state=TRIED, is_heard=False)
        world = with_log(world, index, log)
        if log.state == WAITS and any(not segment for segment in log.old) or (log.state in (TRIED, WHOLE) and not log.old):
            raise Violation(f"server {server} dies", f"a segment of log {index} is on no server any more")
        if log.state == WAITS and not log.old:
            raise Violation(f"server {server} dies", f"log {index} had been freed")
    return world


def covered(worlds):
    return {
        "given up for want of places": sum(world.scarce for world in worlds),
        "one waits for another": sum(world.scarce and any(log.state == TRIED for log in world.logs)
                                     and any(log.state == WAITS for log in world.logs) for world in worlds),
        "all back": sum(not remaining(world) for world in worlds),
        "all back after servers were added": sum(world.is_added and not remaining(world) for world in worlds),
        "all back after deaths": sum(None in world.free and not remaining(world) for world in worlds),
        "an owner died and is recovered": sum(any(log.state == TRIED and world.free.count(None) for log in world.logs) for world in worlds),
        "it is said what is missing": sum(bool(world.said) for world in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
