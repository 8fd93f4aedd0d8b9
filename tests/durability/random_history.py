"""Random histories of two keys that a correct store could have answered: every call takes effect at one moment of its
interval, an unanswered one at any later moment or never."""

import json
import random


class Store:
    """What a correct store does, one call after the other."""

    def __init__(self, chance):
        self.chance = chance
        self.objects = {}   # key: (value, version)
        self.versions = {}  # key: the highest one

    def next_version(self, key):
        self.versions[key] = self.versions.get(key, 0) + self.chance.choice((1, 1, 1, 7))  # a recovery leaves gaps
        return self.versions[key]

    def carry_out(self, call):
        """The answer: status, version, result."""
        key = call["key"]
        value, version = self.objects.get(key, (None, 0))
        demand = call.get("demand")
        if demand == "must-exist" and not version:
            return "NotFound", 0, None
        if demand == "must-not-exist" and version:
            return "ObjectExists", version, None
        if demand == "version" and version != call["demanded_version"]:
            return ("WrongVersion", version, None) if version else ("NotFound", 0, None)
        if call["kind"] == "read":
            return ("Ok", version, value) if version else ("NotFound", 0, None)
        if call["kind"] == "remove":
            self.objects.pop(key, None)
            return "Ok", version, None
        is_write = call["kind"] == "write"
        value = call["argument"] if is_write else str(int(value or 0) + int(call["argument"]))
        version = self.next_version(key)
        self.objects[key] = (value, version)
        return "Ok", version, None if is_write else value


def choose(chance, number, versions):
    if chance.random() < 0.3:
        kind = "read" if chance.random() < 0.4 else "increment"
        return {"kind": kind, "key": "counter", **({"argument": "1"} if kind == "increment" else {})}
    kind = chance.choice(("read", "write", "write", "write", "remove"))
    call = {"kind": kind, "key": "planted"}
    if kind == "write":
        call["argument"] = f"w{number}"
    if kind != "read" and chance.random() < 0.4:
        call["demand"] = chance.choice(("must-exist", "must-not-exist" if kind == "write" else "must-exist", "version"))
        if call["demand"] == "version":
            call["demanded_version"] = versions.get("planted", 0) or 1
    return call


def make(seed, calls=120, clients=5, unanswered=0.05):
    """The lines of a journal."""
    chance = random.Random(seed)
    store = Store(chance)
    free_at = [0] * clients
    events = []  # (time, order, what, call)
    lines = []
    for number in range(1, calls + 1):
        client = min(range(clients), key=lambda index: free_at[index])
        start = free_at[client] + chance.randrange(1, 10)
        end = start + chance.randrange(1, 30)
        free_at[client] = end
        call = {"call": number, "client": client, "start": start}
        is_open = chance.random() < unanswered
        effect = chance.randrange(start, end + 1)
        if is_open:
            effect = start + chance.choice((0, 5, 50, 500))
        events.append((start, 0, number, "begin", call, None))
        events.append((effect, 1, number, "effect", call, is_open and chance.random() < 0.3))
        events.append((end, 2, number, "end", call, is_open))
    answers = {}
    for time, _, number, what, call, flag in sorted(events, key=lambda event: event[:3]):
        if what == "begin":
            call.update(choose(chance, number, {key: version for key, (_, version) in store.objects.items()}))
            lines.append(call)
        elif what == "effect":
            never_happens = flag
            answers[number] = None if never_happens else store.carry_out(call)
        elif not flag:
            status, version, result = answers[number]
            line = {"call": number, "end": time, "status": status, "version": version}
            lines.append({**line, **({"result": result} if result is not None else {})})
        elif chance.random() < 0.5:  # the others have no end at all
            lines.append({"call": number, "end": time, "status": "OutcomeUnknown", "version": 0})
    return [json.dumps(line) for line in lines]
