"""Whether what disks hold is what clients were told: what a recovery would make of them (log_rules.py, frame_reader.py) beside
what was acknowledged.

A moment is a dictionary: what stands on the machines' disks, who owns what by the coordinator's state, and what clients
know of each key. `README.md` has its fields.
"""

from collections import Counter, defaultdict

from xxhash import xxh3_64_intdigest

import frame_reader
import log_rules

FAILURES_MAX = 5


class DiskJudge:
    """Judges moments of one run, one after the other; what it has read of equal bytes it does not read again."""

    def __init__(self):
        self.counts = Counter()
        self.failures = []
        self._cache = {}
        self._hashes = {}

    def judge(self, moment):
        """Lines about what is wrong, of this moment."""
        self.failures = []
        self._moment = moment
        self._facts = {(fact["table"], fact["key"]): fact for fact in moment["keys"]}
        # The moment does not say what was written to other tables.
        self._told_tables = moment.get("tables", {tablet["table"] for owner in moment["owners"] for tablet in owner["tablets"]})
        self.counts["moments"] += 1
        self.counts["power failures"] += moment["power_failure"]
        if len(self._cache) > 4000:
            self._cache.clear()
        if moment.get("demand_whole"):
            self._judge_places(moment["owners"])
        owners = {owner["server"]: owner for owner in moment["owners"] if is_judged(owner)}
        self._logs = {}  # machine: {master: {segment: replica}}
        for machine in moment["machines"]:
            if machine["data"] is not None:
                self._logs[machine["machine"]] = self._read_disk(machine, owners)
        for owner in owners.values():
            self._judge_owner(owner)
        return self.failures

    def fail(self, what):
        if len(self.failures) < FAILURES_MAX:
            self.failures.append(what)

    # --- what the disks hold

    def _read_disk(self, machine, owners):
        logs = defaultdict(dict)
        if not machine["data"]:
            return logs
        try:
            file = frame_reader.FrameFile(machine["data"], machine["power_epoch"], self._cache)
        except frame_reader.Damaged as error:
            self.fail(f"machine {machine['machine']}: {error}")
            return logs
        self.counts["disks"] += 1
        for replica in file.replicas(owners):
            certificate = replica.certificate
            log = logs[certificate.master]
            known = log.get(certificate.segment)
            if known is None or rank(certificate) > rank(known.certificate):
                log[certificate.segment] = replica
            self.counts["replicas"] += 1
            self.counts["open replicas"] += not certificate.closed
            self.counts["short replicas"] += replica.maybe_short
        return logs

    # --- who has what

    def _judge_places(self, owners):
        """Whatever was told to be there has a place in a log that is judged, or that was given up."""
        for owner in owners:
            if not owner.get("is_stored", True):
                self.fail(f"server {owner['server']} owns tablets, and there is no record of it")
        places = [self._coverer(tablet) for owner in owners if is_judged(owner) or owner.get("given_up") for tablet in owner["tablets"]]
        for name, fact in self._facts.items():
            is_told = fact["shown"] > fact["removed"] and not fact.get("any")
            if is_told and not any(covers(*name) for covers in places):
                self.fail(f"key {name[1]!r} of table {name[0]}: version {fact['shown']} was shown, and no log with copies has its tablet")

    # --- what a recovery makes of them

    def _judge_owner(self, owner):
        moment, who = self._moment, f"server {owner['server']}"
        floor = tuple(owner["floor"])
        tablets = [(self._coverer(tablet), tablet["first_segment"]) for tablet in owner["tablets"]]
        keys = [name for name in self._facts if any(covers(*name) for covers, _ in tablets)]
        everybody = len(self._logs) == len(moment["machines"])
        waits_for = moment.get("alone") == owner["server"]
        judged = []
        whole = list(self._logs)
        parts = [[machine for machine in part if machine in self._logs] for part in moment["parts"]]
        for machines in [whole, *(part for part in parts if part != whole)]:
            is_whole = machines is whole
            found = [replica for machine in machines
                     for replica in self._logs[machine].get(owner["server"], {}).values()]
            result = log_rules.survey(found, floor, is_whole and everybody and not waits_for)
            # Of sync tables alone everything that was told is in short replicas, too, unless a disk has lied.
            is_doubtful = result.is_doubtful and not (owner["all_sync"] and not moment["deceived"])
            if result.end is None or result.missing or is_doubtful:
                if is_whole and everybody and not waits_for and (moment.get("demand_whole") or any(
                        self._facts[name]["shown"] and not self._facts[name].get("any") for name in keys)):
                    self.fail(f"the log of {who} is not whole: " + (
                        "it has no end" if result.end is None else f"segments {result.missing} are missing"))
                continue
            self.counts["logs"] += 1
            self.counts["partial logs"] += not is_whole
            self.counts["cut ends"] += result.is_cut
            self.counts["open ends"] += not result.is_cut
            members = [(segment, log_rules.shortest(replicas).contents) for segment, replicas in result.members]
            if any(safe == result.safe_version and len(members) == len(others) and
                   all(a[1] is b[1] for a, b in zip(members, others)) for others, safe in judged):
                continue
            judged.append((members, result.safe_version))
            at = who if is_whole else f"{who}, of the machines {machines}"
            newest = log_rules.replay(members, tablets)
            for name in sorted({*keys, *newest}):
                self._judge_key(name, newest.get(name), result.safe_version, at)

    def _coverer(self, tablet):
        def covers(table, key):
            if table != tablet["table"]:
                return False
            at = self._hashes.get((table, key))
            if at is None:
                at = self._hashes[table, key] = xxh3_64_intdigest(key, table)
            return tablet["first_hash"] <= at <= tablet["last_hash"]
        return covers

    # --- beside what clients were told

    def _judge_key(self, name, found, safe_version, who):
        fact = self._facts.get(name) or {"shown": 0, "removed": 0, "may_remove": False}
        if fact.get("any"):
            return
        shown, removed = fact["shown"], fact["removed"]
        self.counts["keys"] += 1
        if "key" in fact:
            self.counts["told keys"] += 1
        self.counts["keys without power"] += self._moment["power_failure"]

        def fail(version, what):
            self.fail(f"key {name[1]!r} of {who}: version {version} {what}")

        if found is None or found.is_tombstone:
            if shown > removed and not fact["may_remove"]:
                fail(shown, "was shown, and is not there")
            elif max(shown, removed) >= max(safe_version, found.version + 1 if found else 0):
                fail(max(shown, removed), "was shown, and a later write may get it again")
            self.counts["absent keys"] += removed > 0
        elif found.version <= removed:
            fail(found.version, "was removed, and is there")
        elif found.version < shown:
            fail(found.version, f"is there, and {shown} was shown")
        elif not self._is_written(name, fact, found):
            fail(found.version, "has a value that nobody wrote")

    def _is_written(self, name, fact, found):
        if "key" not in fact:
            return name[0] not in self._told_tables
        bits, is_integer = found.value
        if found.version == fact["shown"] and fact["value"] is not None:
            return [bits, is_integer] == fact["value"]
        return [bits, is_integer] in fact["may_write"] or (is_integer and fact["may_increment"])


def is_judged(owner):
    return owner.get("keeps", True) and not owner.get("given_up")


def rank(certificate):
    return certificate.epoch, certificate.length, certificate.closed
