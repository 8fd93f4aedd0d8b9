#!/usr/bin/env python3
"""Verdicts by silence: who is declared dead when servers, or the coordinator itself, are cut off, sleep or die?

A server that is silent for DEATH_AFTER is declared dead, but not while half of the living or more are silent (more likely it
is the coordinator that is cut off): then after SILENT_TOGETHER; and only while enough of the others are heard to take its
place. Time goes in ticks, in each of which a server that can renews its lease once, and the coordinator looks once, at any
moment among the renewals. Links are cut, for any servers at once, and mended; processes are killed; the coordinator
sleeps; answers to renewals come late.

Forbidden:
- a verdict over a server that was never cut off, or in a cut of half of the servers or more at once that was mended before
  SILENT_TOGETHER (less one renewal, and the time in which servers find their way back);
- a verdict by silence while fewer than NEEDED others are heard;
- no verdict two ticks after DEATH_AFTER over a server that died while most others were heard all the time; or over anybody a
  tick after SILENT_TOGETHER, while enough others are heard: of silence, or since a silence together ended;
- others answer for a server's tablets while it does itself;
- a process that is healthy and hears that it was declared dead ends.
"""

import sys
from typing import NamedTuple

import exploration
from exploration import Violation

sys.dont_write_bytecode = True

RULES = {
    "together-waits": "while half of the living or more are silent, a verdict needs SILENT_TOGETHER",
    "together-ends": "after SILENT_TOGETHER there is a verdict also while half are silent",
    "nearly-counts": "who misses one renewal to DEATH_AFTER counts as silent, not only who is so for a lease",
    "noted-at-renewals": "that there is a silence together is noted also when a renewal ends it, not only when the coordinator looks",
    "end-restarts": "when a silence together ends, the silence of those who are still silent counts anew",
    "restarts-are-bounded": "SILENT_TOGETHER after it first counted anew there is a verdict, however often it did since",
    "needs-replacers": "no verdict by silence when fewer than NEEDED are left",
    "silent-are-not-left": "only those that are heard count as left",
    "sleep-is-not-silence": "what the coordinator itself slept is not silence of others",
    "lease-from-sending": "a server counts its lease from when it sent the renewal",
    "fenced-go-on": "a server that hears that it was declared dead goes on as a new one",
}

LEASE = 3  # of the coordinator's count
SERVES = 2  # of the server's own: it stops earlier
DEATH_AFTER = 3
SILENT_TOGETHER = 6
RENEWAL = 1  # when a link is cut, the last renewal may be as long ago
WAY_BACK = 2  # ticks from when a link is mended until the server has renewed
AGE_MAX = SILENT_TOGETHER + 2
SLEEP = DEATH_AFTER + 1
LATE_MAX = 2


class Server(NamedTuple):
    up: bool = True
    linked: bool = True
    age: int = 0  # since it was heard, as the coordinator counts
    serves: int = SERVES  # what is left of its lease, as it counts
    dead: bool = False  # declared
    taken: bool = False  # others have its tablets
    cut: int = 0  # how long the link was down; until it is heard again
    together: bool = False  # in a cut of half or more at once
    quiet: int = 0  # since it is linked again
    answer: int = -1  # age of an answer on its way
    alone: bool = True  # since it died most others were heard
    spared: int = -1  # since a silence together ended first in which it was silent


GONE = Server(up=False, linked=False, age=0, serves=0, dead=True, taken=True, alone=False)


class World(NamedTuple):
    servers: tuple
    needed: int
    left: tuple  # cuts, kills, sleeps, late answers
    looked: bool = False  # in this tick
    noted: bool = False  # a silence together is under way
    since_end: int = AGE_MAX  # of the last one

    def with_server(self, index, server):
        # Servers are alike, so their order does not matter.
        return self._replace(servers=tuple(sorted(self.servers[:index] + (server,) + self.servers[index + 1:])))

    def with_all(self, servers):
        return self._replace(servers=tuple(sorted(servers)))

    def spend(self, which):
        return self.left[:which] + (self.left[which] - 1,) + self.left[which + 1:]


def beginnings(on):
    # The coordinator sleeps; answers are late; more have to be left than there are; one is dead and another one comes and goes;
    # half of all or more are cut off, and one dies.
    killed = Server(up=False, linked=False, serves=0)
    yield World((Server(),) * 4, needed=2, left=(0, 1, 1, 0))
    yield World((Server(),) * 3, needed=1, left=(1, 0, 0, 1))
    yield World((Server(),) * 4, needed=3, left=(1, 0, 0, 0))
    yield World(tuple(sorted((killed, Server(), Server()))), needed=1, left=(3, 0, 0, 0))
    yield World((Server(),) * 4, needed=2, left=(1, 1, 0, 0))


# --- the coordinator

def silent_from(on):
    return DEATH_AFTER - 1 if "nearly-counts" in on else LEASE


def living(servers):
    return [server for server in servers if not server.dead]


def are_silent_together(servers, on):
    alive = living(servers)
    return bool(alive) and 2 * sum(server.age >= silent_from(on) for server in alive) >= len(alive)


def heard_others(servers, candidate, on):
    others = [server for server in living(servers)]
    others.remove(candidate)
    return sum(server.age < silent_from(on) for server in others)


def is_due(world, server, together, on):
    """By what the coordinator knows."""
    others = heard_others(world.servers, server, on) if "silent-are-not-left" in on else len(living(world.servers)) - 1
    if "needs-replacers" in on and others < world.needed:
        return False
    silent = min(server.age, world.since_end) if "end-restarts" in on else server.age
    if together and "together-waits" in on:
        return "together-ends" in on and server.age >= SILENT_TOGETHER
    return silent >= DEATH_AFTER or ("restarts-are-bounded" in on and server.spared >= SILENT_TOGETHER)


def judge(server, world, on):
    """The verdict is given: was it right?"""
    if server.up and not server.cut:
        raise Violation("a verdict", f"over a server that was never cut off, silent for {server.age}")
    if server.up and server.together and server.cut < SILENT_TOGETHER - WAY_BACK - RENEWAL:
        raise Violation("a verdict", f"over a server of a cut of half or more, which lasted {server.cut}")
    if heard_others(world.servers, server, on) < world.needed:
        raise Violation("a verdict", f"though {heard_others(world.servers, server, on)} others are heard")


def noted_end(world, on):
    """A silence together that was noted may be over: who is silent still counts anew."""
    if not world.noted or are_silent_together(world.servers, on):
        return world
    return world.with_all(
        server._replace(spared=max(server.spared, 0)) if server.age >= silent_from(on) and not server.dead else server
        for server in world.servers)._replace(noted=False, since_end=0)


def looked(world, on):
    """The coordinator looks at the silences, and gives tablets of the dead to others."""
    world = noted_end(world, on)
    together = are_silent_together(world.servers, on)
    world = world._replace(noted=together)
    due = True
    while due:
        due = next((server for server in living(world.servers) if is_due(world, server, together, on)), None)
        if due:
            judge(due, world, on)
            world = world.with_server(world.servers.index(due), due._replace(dead=True))
    world = noted_end(world, on)  # verdicts end it, too
    for server in world.servers:
        if server.dead and not server.taken and server.age >= LEASE:
            if server.up and server.serves:
                raise Violation("a grant", "others answer for a server's tablets while it does itself")
            world = world.with_server(world.servers.index(server), server._replace(taken=True) if server.up else GONE)
    check_overdue(world)
    return world._replace(looked=True)


# --- what happens

def steps(world, on):
    if not world.looked:
        yield "the coordinator looks", looked(world, on)
    if all(not must_renew(server) for server in world.servers) and world.looked:
        yield "a tick", ticked(world)
    yield from steps_of_links(world)
    seen = None
    for index, server in enumerate(world.servers):
        if server != seen:
            yield from steps_of_server(world, index, server, on)
        seen = server
    if world.left[2]:
        yield f"the coordinator sleeps for {SLEEP}", slept(world, on)


def must_renew(server):
    return server.up and server.linked and server.quiet >= (WAY_BACK if server.cut else 1)


def ticked(world):
    servers = [aged(server, 1) for server in world.servers]
    if are_silent_together(servers, RULES):
        servers = [server._replace(alone=False) for server in servers]
    return world.with_all(servers)._replace(looked=False, since_end=min(world.since_end + 1, AGE_MAX))


def aged(server, ticks, counts=True):
    if server == GONE:
        return server
    return server._replace(
        age=min(server.age + (ticks if counts else 0), AGE_MAX), serves=max(server.serves - ticks, 0),
        cut=min(server.cut + ticks, SILENT_TOGETHER) if not server.linked else server.cut,
        quiet=min(server.quiet + ticks, WAY_BACK) if server.linked and server.up else 0,
        spared=min(server.spared + ticks, SILENT_TOGETHER + 1) if server.spared >= 0 and not server.dead else -1,
        answer=-1 if server.answer < 0 or server.answer >= LATE_MAX else server.answer + ticks)


def check_overdue(world):
    """The coordinator has looked: should it have decided?"""
    together = are_silent_together(world.servers, RULES)
    for server in living(world.servers):
        if heard_others(world.servers, server, RULES) < world.needed:
            continue
        if not server.up and server.alone and server.age > DEATH_AFTER + 1:
            raise Violation("a look", f"a dead server is silent for {server.age}, most others are heard, and there is no verdict")
        if (server.age if together else server.spared) > SILENT_TOGETHER:
            raise Violation("a look", f"a server is silent for {server.age}, others could take its place, and there is no verdict")


def steps_of_links(world):
    linked = [server for server in world.servers if server.up and server.linked and not server.cut]
    if world.left[0]:
        # Any number at once, some of which have renewed in this tick. An answer may have arrived and be read later.
        for cut in subsets(linked):
            half = 2 * len(cut) >= len(living(world.servers)) and all(server.age <= RENEWAL for server in cut)
            yield f"{len(cut)} servers are cut off", replaced(world, cut, lambda server: server._replace(
                linked=False, cut=0, together=half, quiet=0))._replace(left=world.spend(0))
    cut = [server for server in world.servers if server.up and not server.linked]
    for mended in subsets(cut):
        rest = [server for server in cut]
        for server in mended:
            rest.remove(server)
        after = replaced(world, mended, lambda server: server._replace(linked=True, quiet=0 if server.cut else 1))
        # Servers that stay away do not count as cut off together any more.
        yield f"{len(mended)} links are mended", replaced(after, rest, lambda server: server._replace(together=False))


def subsets(servers):
    """Those that differ, none of them empty."""
    found = {()}
    for server in servers:
        found |= {tuple(sorted(chosen + (server,))) for chosen in found}
    return sorted(found - {()})


def replaced(world, chosen, change):
    servers = list(world.servers)
    for server in chosen:
        servers.remove(server)
    return world.with_all(servers + [change(server) for server in chosen])


def steps_of_server(world, index, server, on):
    if server.up and server.linked and server.quiet:
        yield from renewed(world, index, server, on)
    if server.answer >= 0:
        yield "a late answer arrives", world.with_server(index, answered(server, server.answer, on))
    if server.up and world.left[1]:
        yield "a server is killed", world._replace(left=world.spend(1)).with_server(
            index, server._replace(up=False, linked=False, serves=0, cut=0, together=False, quiet=0, answer=-1,
                                   alone=server.age < silent_from(RULES) and not (world.noted or are_silent_together(world.servers, RULES))))


def renewed(world, index, server, on):
    if server.dead:
        if "fenced-go-on" not in on:
            raise Violation("a renewal", "a healthy process ends")
        yield "a server hears that it was declared dead", world.with_server(index, Server())
        return
    heard = server._replace(age=0, cut=0, together=False, quiet=0, spared=-1)
    noted = world.noted or ("noted-at-renewals" in on and are_silent_together(world.servers, on))
    world = world._replace(noted=noted)
    yield "a server renews", world.with_server(index, answered(heard, 0, on))
    if world.left[3]:
        yield "a server renews, the answer is late", world._replace(left=world.spend(3)).with_server(index, heard._replace(answer=0))


def answered(server, late, on):
    serves = max(SERVES - late, 0) if "lease-from-sending" in on else SERVES
    server = server._replace(serves=max(serves, server.serves), answer=-1)
    if server.taken and server.serves:
        raise Violation("an answer", "a server serves while others answer for its tablets")
    return server


def slept(world, on):
    """Nobody is answered meanwhile, and all ask when it wakes."""
    counts = "sleep-is-not-silence" not in on
    servers = [aged(server, SLEEP, counts) for server in world.servers]
    return world.with_all(servers)._replace(left=world.spend(2), looked=False)


def covered(worlds):
    return {
        "silent together": sum(world.noted for world in worlds),
        "declared dead": sum(any(server.dead and server.up for server in world.servers) for world in worlds),
        "really dead": sum(any(server == GONE for server in world.servers) for world in worlds),
        "back after a silence together": sum(world.since_end < DEATH_AFTER for world in worlds),
        "waiting for others": sum(any(server.age > SILENT_TOGETHER and not server.dead for server in world.servers) for world in worlds),
        "late answers": sum(any(server.answer >= 0 for server in world.servers) for world in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
