#!/usr/bin/env python3
"""A coordinator whose state is an older copy: does anybody obey it who has relied on what it forgot?

Each change of the coordinator's state has a reference: the start that made it (drawn at random when a coordinator begins)
and a number that goes on over starts. A store has the list of its starts, each with the number of the last change before
it. Servers keep the latest reference that they have heard of, and name it when they enlist and renew. The coordinator
has that change (its start is in the list, its number is not above what the start had when the next one began), or it serves
nobody from then on, until an operator accepts what is missing.

In the model there are one store in use, one copy of it (made at any time, exchanged for the store while no coordinator
runs, and back) or the store of another cluster; two servers that keep what they hear and crash; commands that arrive late,
also from a coordinator that has ended. A change gives a tablet, a floor or an id: here it is one thing, which a server uses
once a command, or an answer to a question, tells it.

Forbidden:
- a server obeys a coordinator whose state lacks what this server has used, unless an operator has accepted that;
- a coordinator that was told of a missing change goes on to make changes that somebody obeys;
- a coordinator is taken for an older copy by a server all of whose references are in its state, or that belongs to another
  cluster;
- an id is given to two changes of which the later one's state knows that the earlier one is given up.
"""

import functools
import sys
from typing import NamedTuple

import exploration
from exploration import Violation

sys.dont_write_bytecode = True

RULES = {
    "starts-are-named": "a reference names the start that made the change, not the number alone",
    "numbers-go-on": "the number goes on over starts, and a server keeps the highest",
    "flush-before-use": "a server flushes the reference of what it uses before it uses it",
    "behind-is-stored": "a coordinator stores that it is behind: so is the one that is started next",
    "start-is-no-change": "a start and a note that it is behind are not told to servers: nobody relies on them",
    "clusters-are-compared": "an answer and a command count for servers of that cluster alone, in renewals as well",
    "commands-of-known-start": "a server obeys commands of that start alone which has answered its last renewal",
    "questions-name-too": "a question to the coordinator is answered only after the server has named its reference to this start",
    "late-answers-count-for-nothing": "an answer of another start than before counts only if the server has heard of nothing since "
                                      "it asked",
    "answers-of-known-start": "what a question is answered with counts as commands do: from the start that has answered the last "
                              "renewal",
    "behind-confirms-nothing": "a coordinator that was told what it lacks while it stored a change does not confirm that",
    "accepting-raises-number": "accepting what is missing raises the number above all that was named",
    "accepting-skips-ids": "accepting skips ids by what may have been handed out, counted from the number that was named",
}

SKIP = 100  # more than there are changes here

# How often each thing happens at most: starts, changes, copies, exchanges, crashes, acceptances, things that take their time.
OF_COPIES = (3, 2, 1, 2, 1, 1, 0)
OF_ACCEPTANCES = (5, 2, 1, 2, 0, 2, 0)
OF_CLUSTERS = (3, 2, 0, 2, 1, 0, 0)
OF_LATE_ANSWERS = (2, 2, 1, 2, 0, 0, 1)

# The bounds with which the search begins when a rule is left out, if copies do not find it soonest.
FOUND_WITH = {
    "starts-are-named": OF_ACCEPTANCES,
    "numbers-go-on": OF_ACCEPTANCES,
    "clusters-are-compared": OF_CLUSTERS,
    "late-answers-count-for-nothing": OF_LATE_ANSWERS,
    "answers-of-known-start": OF_LATE_ANSWERS,
    "behind-confirms-nothing": OF_LATE_ANSWERS,
    "accepting-raises-number": OF_ACCEPTANCES,
    "accepting-skips-ids": OF_ACCEPTANCES,
}


class Change:
    """`has`: every change that the state had with it, itself included; `given_up` for it; `ids`: (what was handed out, by
    which change) of all that it has. Only the properties read these. Equal ones are one object: change_of() makes them."""

    def __init__(self, start, number, has, given_up, ids):
        self.name = (start, number)
        self.start, self.number, self.has, self.given_up, self.ids = start, number, has, given_up, ids


change_of = functools.lru_cache(maxsize=None)(Change)


class Store(NamedTuple):
    cluster: int = 1
    starts: tuple = ()  # (start, number of the last change before)
    number: int = 0
    last: Change = None
    next_id: int = 1
    missing: frozenset = frozenset()  # what it was told of and does not have
    accepted: frozenset = frozenset()
    has: frozenset = frozenset()
    given_up: frozenset = frozenset()
    ids: frozenset = frozenset()
    contradicted: bool = False  # a server that had used what it lacks has told it. For the properties alone


class Command(NamedTuple):
    start: int
    cluster: int
    change: Change
    contradicted: bool


class Answer(NamedTuple):
    """To a renewal."""
    start: int
    named: Change  # by the server
    last: Change


class Server(NamedTuple):
    cluster: int = 0  # 0: it has never enlisted
    heard: Change = None
    kept: Change = None  # what is on its disk for sure; more may be
    obeys: int = 0  # the start that has answered; 0: none in this life
    used: frozenset = frozenset()
    command: Command = None  # on its way
    answer: Answer = None  # on its way
    waits_for: int = 0  # the start that stores a change for it
    told: Command = None  # the answer to that, on its way


ORDER = {}


def order_of(server):
    return ORDER.setdefault(server, len(ORDER))


class World(NamedTuple):
    store: Store
    other: Store = None  # the copy, or another cluster's
    runs: int = 0  # the start that runs
    forgets: frozenset = frozenset()  # what it is behind of, where that is not stored
    servers: tuple = ()
    left: tuple = ()
    begun: int = 0  # starts

    def spend(self, which):
        return self.left[:which] + (self.left[which] - 1,) + self.left[which + 1:]

    def with_server(self, index, server):
        # Servers are alike, so their order does not matter.
        servers = self.servers[:index] + (server,) + self.servers[index + 1:]
        return self._replace(servers=tuple(sorted(servers, key=order_of)))


def beginnings(on):
    # A coordinator of another cluster in place of the right one, with a new server. Copies that are accepted, one after the
    # other. Copies, and two servers of which one knows more; then with answers and changes that take their time.
    old = Server(cluster=1)
    worlds = [World(Store(), Store(cluster=2), servers=(Server(), old), left=OF_CLUSTERS),
              World(Store(), servers=(old,), left=OF_ACCEPTANCES),
              World(Store(), servers=(old, old), left=OF_COPIES),
              World(Store(), servers=(old, old), left=OF_LATE_ANSWERS)]
    first = [FOUND_WITH.get(rule, OF_COPIES) for rule in RULES if rule not in on]
    return sorted(worlds, key=lambda world: world.left not in first)


# --- the coordinator

def has_change(store, change, on):
    if change is None or any(change.start == start and change.number <= number for start, number in store.accepted):
        return True
    if "starts-are-named" not in on:
        return change.number <= store.number
    for index, (start, _) in enumerate(store.starts):
        if start == change.start:
            last = index + 1 == len(store.starts)
            return change.number <= (store.number if last else store.starts[index + 1][1])
    return False


def begun(store, start, on):
    """A start is stored before anybody is answered."""
    store = store._replace(starts=store.starts + ((start, store.number),))
    if "numbers-go-on" not in on:
        store = store._replace(number=0)
    if "start-is-no-change" not in on:
        number = store.number + 1
        store = store._replace(number=number, last=change_of(start, number, store.has, store.given_up, store.ids))
    return store


def changed(store, start):
    number = store.number + 1
    name = (start, number)
    has = store.has | {name}
    for given, by in store.ids:
        if given == store.next_id:
            raise Violation("a change", f"{name} hands out the id {given}, which is known to have been handed out by {by}")
    ids = store.ids | {(store.next_id, name)}
    return store._replace(number=number, next_id=store.next_id + 1, has=has, ids=ids,
                          last=change_of(start, number, has, store.given_up, ids))


def accepted(store, start, on):
    """The operator gives up what the coordinator was told of and does not have: the first change of a start."""
    named = max(change.number for change in store.missing)
    given_up = store.given_up.union(*(change.has for change in store.missing)) - store.has
    before = max(named, store.number) if "accepting-raises-number" in on else store.number
    skipped = SKIP + (max(named - store.number, 0) if "accepting-skips-ids" in on else 0)
    accepting = begun(store, start, on)._replace(
        missing=frozenset(), accepted=store.accepted | {change.name for change in store.missing}, number=before,
        next_id=store.next_id + skipped, given_up=given_up, ids=store.ids.union(*(change.ids for change in store.missing)),
        contradicted=False)
    return changed(accepting, start)


def alarmed(world, server, on):
    """The server has named a change that the coordinator does not have."""
    store, change = world.store, server.heard
    if server.cluster not in (0, store.cluster):
        raise Violation("a renewal", f"a coordinator of cluster {store.cluster} takes itself for an older copy, because a server "
                        f"of cluster {server.cluster} has asked")
    if change.has <= store.has:
        raise Violation("a renewal", f"a coordinator takes itself for an older copy for {change.name}, and lacks nothing of what "
                        "was made with it")
    if "behind-is-stored" in on:
        return world._replace(store=store._replace(missing=store.missing | {change}))
    return world._replace(forgets=world.forgets | {change})


def is_behind(world):
    return bool(world.store.missing or world.forgets)


# --- servers

def lacks(server, has, given_up):
    return server.used - has - given_up


def heard(server, change, on):
    """It keeps the latest."""
    if change is None or (server.heard is not None and change.number <= server.heard.number):
        return server
    return server._replace(heard=change)


def obeyed(server, command, what, on):
    """The server does what the change says."""
    change = command.change
    if command.contradicted:
        raise Violation(what, f"somebody obeys {change.name}, which was made after the coordinator had been told what it lacks")
    # A late command may stem from an older state of the same history: epochs and floors protect from that. A prompt answer
    # must not.
    late = what != "an answer" and change.name in server.used
    if lacks(server, change.has, change.given_up) and not late:
        raise Violation(what, f"a server obeys {change.name} of a state that lacks {sorted(lacks(server, change.has, change.given_up))}, "
                        "which it has used")
    server = heard(server, change, on)
    if "flush-before-use" in on:
        server = server._replace(kept=server.heard)
    return server._replace(used=server.used | change.has)


def named(world, index, on):
    """A server enlists or renews: gives what becomes of the world, and the answer, if it gets one."""
    server, store = world.servers[index], world.store
    if server.cluster not in (0, store.cluster) and "clusters-are-compared" in on:
        return world, None  # WrongCluster
    if is_behind(world) or not has_change(store, server.heard, on):
        if not has_change(store, server.heard, on):
            world = alarmed(world, server, on)
        if lacks(server, store.has, store.given_up):
            world = world._replace(store=world.store._replace(contradicted=True))
        return world, None  # StateBehind
    if lacks(server, store.has, store.given_up):
        world = world._replace(store=store._replace(contradicted=True))
    return world, Answer(world.runs, server.heard, store.last)


def answered(server, answer, cluster, on):
    is_late = answer.start != server.obeys and answer.named is not server.heard
    if is_late and "late-answers-count-for-nothing" in on:
        return server
    return heard(server._replace(cluster=server.cluster or cluster, obeys=answer.start), answer.last, on)


# --- what happens

def steps(world, on):
    yield from steps_of_coordinator(world, on)
    for index, server in enumerate(world.servers):
        if index and server == world.servers[index - 1]:
            continue
        yield from steps_of_server(world, index, server, on)


def steps_of_coordinator(world, on):
    store = world.store
    starts, changes, copies, exchanges, _, accepts, _ = world.left
    if starts:
        start = world.begun + 1
        begin = world._replace(runs=start, begun=start, forgets=frozenset(), left=world.spend(0))
        yield f"start {start} of cluster {store.cluster}", begin._replace(store=begun(store, start, on))
        if exchanges and world.other:
            yield f"start {start}, with the other directory, of cluster {world.other.cluster}", begin._replace(
                store=begun(world.other, start, on), other=store, left=begin.spend(3))
        if accepts and store.missing:
            yield f"start {start}, where the operator accepts what is missing", begin._replace(
                store=accepted(store, start, on), left=begin.spend(5))
    if copies and world.other is None:
        yield "the directory is copied", world._replace(other=store, left=world.spend(2))
    if world.runs and changes and not is_behind(world):
        for index, server in enumerate(world.servers):
            if server.cluster in (0, store.cluster):
                after = changed(store, world.runs)
                command = Command(world.runs, store.cluster, after.last, store.contradicted)
                yield f"change ({world.runs}, {after.number}) with a command to server {index}", world._replace(
                    store=after, left=world.spend(1)).with_server(index, server._replace(command=command))


def steps_of_server(world, index, server, on):
    if world.runs:
        after, answer = named(world, index, on)
        if answer:
            # A server asks one question at a time: it does not wait for the answer to an earlier one any more.
            after = after.with_server(index, answered(server, answer, world.store.cluster, on)._replace(answer=None))
        yield f"server {index} renews: {'answered' if answer else 'refused'}", after
    if world.left[6]:
        yield from late_steps_of_server(world, index, server, on)
    if server.answer:
        after = answered(server, server.answer, world.store.cluster, on)
        yield f"the answer reaches server {index}", world.with_server(index, after._replace(answer=None))
    if server.waits_for:
        yield f"what server {index} has asked for is stored", stored(world, index, server, on)
    if server.told:
        told = server._replace(told=None)
        if server.obeys == server.told.start or "answers-of-known-start" not in on:
            told = obeyed(told, server.told, "an answer that was on its way", on)
        yield f"server {index} hears that it is stored", world.with_server(index, told)
    if server.command:
        yield f"a command reaches server {index}", world.with_server(index, commanded(server, on))
    if world.runs and not is_behind(world) and world.store.last and (server.obeys == world.runs or "questions-name-too" not in on):
        # Which masters' replicas are needed, who lives, how a client's lease is.
        answer = Command(world.runs, world.store.cluster, world.store.last, world.store.contradicted)
        if server.cluster == world.store.cluster:
            yield f"server {index} asks, and does what the answer says", world.with_server(index, obeyed(server, answer, "an answer", on))
    if world.left[4]:
        crashed = world._replace(left=world.spend(4))
        for heard_of in {server.kept, server.heard}:
            yield f"server {index} crashes and starts", crashed.with_server(
                index, server._replace(heard=heard_of, kept=heard_of, obeys=0, command=None, answer=None, waits_for=0, told=None))


def late_steps_of_server(world, index, server, on):
    """What it asks for, and the answer comes later."""
    if not world.runs or is_behind(world):
        return
    if not server.answer:
        after, answer = named(world, index, on)
        if answer:
            yield f"server {index} renews, and the answer takes its time", after._replace(left=world.spend(6)).with_server(
                index, server._replace(answer=answer))
    if not server.waits_for and not server.told and world.left[1] and server.obeys == world.runs:
        yield f"server {index} asks for a change, and the disk takes its time", world._replace(left=world.spend(6)).with_server(
            index, server._replace(waits_for=world.runs))


def stored(world, index, server, on):
    """The change that the server has asked for is on the disk, and that is answered; or the coordinator is another one."""
    is_over = world.runs != server.waits_for or not world.left[1]
    server = server._replace(waits_for=0)
    if is_over:
        return world.with_server(index, server)
    after = changed(world.store, world.runs)
    if not is_behind(world) or "behind-confirms-nothing" not in on:
        server = server._replace(told=Command(world.runs, world.store.cluster, after.last, world.store.contradicted))
    return world._replace(store=after, left=world.spend(1)).with_server(index, server)


def commanded(server, on):
    command = server.command
    server = server._replace(command=None)
    if "clusters-are-compared" in on and server.cluster != command.cluster:
        return server
    if "commands-of-known-start" in on and server.obeys != command.start:
        return server  # RetryLater, and it renews at once
    return obeyed(server, command, "a command", on)


def covered(worlds):
    return {
        "behind": sum(bool(world.store.missing) for world in worlds),
        "accepted": sum(bool(world.store.accepted) for world in worlds),
        "another cluster": sum(world.runs != 0 and world.store.cluster == 2 for world in worlds),
        "the right store again": sum(not world.store.missing and bool(world.other and world.other.missing) and world.runs != 0
                                     for world in worlds),
        "answers of starts that are over": sum(any(server.answer and server.answer.start != world.runs for server in world.servers)
                                               for world in worlds),
        "behind while a change is stored": sum(bool(world.store.missing) and any(server.waits_for == world.runs for server in world.servers)
                                               for world in worlds),
        "late commands": sum(any(server.command and server.command.start != world.runs for server in world.servers) for world in worlds),
    }


if __name__ == "__main__":
    exploration.run(__name__)
