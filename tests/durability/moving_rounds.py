"""Rounds of tests/durability/run in which processes are killed, or stopped for three leases, while a tablet is moved.

A cell is one kind of victim in one phase of the move. The phase is what the coordinator has logged of the move: with
--log-level debug it tells of each step that it has stored, and of how much has arrived whenever it has asked. A signal
counts only for a cell whose phase the move was in, by the coordinator's log, both before and after it was sent.
"""

import calendar
import collections
import json
import os
import re
import signal
import sys
import tempfile
import time

from cluster_harness import Failed, run, tool, wait_for
from coordinator_rounds import EVERYTHING, Violation

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "frames"))
import coordinator_state  # noqa: E402

PHASES = ("preparing", "freezing", "handed-over", "10", "50", "90", "joining", "dropping", "returning")
TAKEN_BACK_AT = "10"  # for a round about a move that returns
LATER = ("giving up", "over")
VICTIMS = ("S", "D", "backup", "coordinator", "S+D", "S+coordinator", "D+coordinator", "stop-S", "stop-D")
CELLS = [(victim, phase) for victim in VICTIMS for phase in PHASES]
# Each phase, each kind of process that is killed, and each of those that are stopped.
CELLS_QUICK = [("S", "50"), ("D", "90"), ("backup", "joining"), ("coordinator", "freezing"), ("S+D", "10"),
               ("S+coordinator", "handed-over"), ("D+coordinator", "dropping"), ("S", "preparing"),
               ("stop-S", "handed-over"), ("stop-D", "50"), ("S", "returning")]
TRIES_MAX = 12  # for a cell; most of those that miss it kill nobody
MOVE_S_MAX = 30
ACKS_MIN = 25  # in the 100 ms before the signal: some of the callers wait for keys that have not arrived
FILLERS = 30_000  # objects that only move: 30 MB of the table
FILLER_BYTES = 1000
# The oracle's table. With fewer keys the calls would have fetched nearly all of them when half of it has arrived.
TABLE_TO_MOVE = {"tablets": 4, "registers": 3000, "counters": 1000, "workers": 32}
IMPORTED_AT_ONCE = 10_000

STEPS = {"is preparing": "preparing", "is handing over": "freezing", "is arriving": "handed-over", "is arrived": "dropping",
         "is returning": "returning", "is giving up": "giving up"}
MOVE_LINE = re.compile(
    r"^(\S+)\.(\d{6})Z \w+ ramcore-coordinator: move (\d+) of tablet (\d+)(?:: | to server \d+ )(.*)\n", re.M)

# A line of the coordinator's log; `at` in seconds since 1970.
Seen = collections.namedtuple("Seen", "at move phase text")
# Servers by their names; `owned` is what each of them has, `moved` the tablet's range.
Choice = collections.namedtuple("Choice", "tablet source destination backup owned moved")


def phase_of(text, before):
    """The phase of a move of which the coordinator has just said that; `before`: the one that it was in."""
    if text in STEPS:
        return STEPS[text]
    percent = re.match(r"(\d+) % has arrived", text)
    has_arrived = text.startswith("all has arrived")
    if before == "returning" and (percent or has_arrived):
        return before
    if has_arrived:
        return "joining"
    if percent:
        return next((str(least) for least in (90, 50, 10) if int(percent.group(1)) >= least), "handed-over")
    return "over"


def seen_of(said, tablet):
    """What was said of moves of that tablet, line by line."""
    seen = []
    for stamp, micros, move, of_tablet, text in MOVE_LINE.findall(said):
        if int(of_tablet) == tablet:
            seconds = calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
            before = seen[-1].phase if seen and seen[-1].move == int(move) else None
            seen.append(Seen(seconds + int(micros) / 1e6, int(move), phase_of(text, before), text))
    return seen


def has_come_to(seen, phase):
    order = PHASES + LATER
    return bool(seen) and order.index(seen[-1].phase) >= order.index(phase)


class MovingRounds:
    """A part of Scenario: each round is for one cell, and tries until a kill has met its phase."""

    def run_cells(self, cells, turn):
        """A round for each of them, then how often each was met and missed. What alternates begins the other way every
        other turn."""
        self.import_fillers()
        hits, misses, turned_out = collections.Counter(), collections.Counter(), collections.Counter()
        for number, cell in enumerate(cells, 1):
            begun = time.monotonic()
            for attempt in range(1, TRIES_MAX + 1):
                self.cluster.await_whole()
                self.oracle.ask("resume")
                end = self.try_cell(number, cell, comes_back_at_once=(number + turn) % 2 == 0)
                (hits if end else misses)[cell] += 1
                if end:
                    turned_out[end] += 1
                    break
            print(f"{self.name} {number}: {':'.join(cell)} {'met' if end else 'MISSED'} after {attempt} tries, "
                  f"{time.monotonic() - begun:.1f} s", flush=True)
        self.cluster.await_whole()  # also after the last one
        self.tell_counts(hits, misses, turned_out)
        missed = [":".join(cell) for cell in cells if not hits[cell]]
        if missed:
            raise Failed(f"no kill met {', '.join(missed)} in {TRIES_MAX} tries each")

    def tell_counts(self, hits, misses, turned_out):
        print(f"{self.name}: signals that met their phase, by victim (+ tries that missed it)\n{'':14}"
              + "".join(f"{phase:>13}" for phase in PHASES))
        for victim in VICTIMS:
            cells = [(victim, phase) for phase in PHASES]
            if any(hits[cell] + misses[cell] for cell in cells):
                print(f"{victim:14}" + "".join(f"{f'{hits[cell]} (+{misses[cell]})':>13}" for cell in cells))
        print(f"{self.name}: {sum(hits.values())} rounds in order; the moves: "
              + ", ".join(f"{count} {end}" for end, count in sorted(turned_out.items())), flush=True)

    # --- the objects that only move

    def import_fillers(self):
        rest = "." * FILLER_BYTES
        for first in range(0, FILLERS, IMPORTED_AT_ONCE):
            numbers = range(first, first + IMPORTED_AT_ONCE)
            lines = "".join(f'{{"key":"filler {number}","value":"{number} {rest}"}}\n' for number in numbers)
            self.cluster.rc("import", "--quiet", self.table, stdin=lines)
        self.filled = self.fillers()
        if len(self.filled) != FILLERS:
            raise Violation(f"{len(self.filled)} of {FILLERS} imported objects are there", True)
        # For the judge of the directories, who has the journal for the other keys of the table.
        path = self.cluster.path("fillers.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            for key, (value, version) in self.filled.items():
                file.write(json.dumps({"key": key, "value": value, "version": version}) + "\n")
        self.cluster.unchanged[self.table] = path

    def fillers(self):
        """{key: (value, version)}."""
        return {key: told for key, told in self.cluster.export(self.table).items() if key.startswith("filler ")}

    def check_fillers(self):
        now = self.fillers()
        wrong = [key for key in self.filled.keys() | now.keys() if self.filled.get(key) != now.get(key)]
        if wrong:
            raise Violation(f"{len(wrong)} objects that nobody changed are not as they were: {sorted(wrong)[:3]}", True)

    # --- a try

    def try_cell(self, number, cell, comes_back_at_once):
        """One move. Gives how it ended; None: no signal was sent in the cell's phase, or there was too little load."""
        victim, phase = cell
        choice = self.choose_move(number)
        self.await_load()
        coordinator = self.cluster.coordinator
        said_before = len(coordinator.said())
        look = lambda said: seen_of(said[said_before:], choice.tablet)  # noqa: E731
        mover = self.cluster.start("rcmigrate", "move", choice.tablet, "--to", choice.destination, "--no-wait")
        returner = None
        is_to_return = lambda said: has_come_to(look(said), TAKEN_BACK_AT)  # noqa: E731
        if phase == "returning" and coordinator.wait_until_said(is_to_return, MOVE_S_MAX):
            returner = self.cluster.start("rcmigrate", "cancel", look(coordinator.said())[-1].move)
        if not coordinator.wait_until_said(lambda said: has_come_to(look(said), phase), MOVE_S_MAX):
            raise Failed(f"a move did not come to {phase} in {MOVE_S_MAX} s\n{coordinator.log()}")
        seen = look(coordinator.said())
        if seen[-1].phase != phase:  # it was too fast for us
            self.await_end(seen[-1].move)
            self.finish(mover, returner)
            return None
        names = self.names_of(victim, choice)
        ranges = {choice.moved} | {owned for name in names for owned in choice.owned.get(name, [])}
        at_ns, before, after = self.send(victim, names)
        told = look(coordinator.said())
        meant = "stopped" if victim.startswith("stop-") else "killed"
        self.bring_back(victim, names, comes_back_at_once)
        ranges = [EVERYTHING] if "coordinator" in names else sorted(ranges)
        what = (f"{' and '.join(names)} {meant} while tablet {choice.tablet} goes from {choice.source} to "
                f"{choice.destination}")
        acks = self.judge(number, what, at_ns, ranges, demands_load=False)
        end = self.await_end(told[-1].move)
        self.await_one_log_each()
        self.check_fillers()
        # A living coordinator may have told more before the signal than had come here.
        told = look(coordinator.said())
        at_first, at_last = [[seen for seen in told if seen.at <= at][-1] for at in (before, after)]
        is_met = at_first.phase == at_last.phase == phase
        has_load = acks["acks"] >= ACKS_MIN and acks["of_ranges"] > 0
        print(f"{self.name} {number}: wanted {':'.join(cell)}; the coordinator had said '{at_last.text}' "
              f"{(after - at_last.at) * 1000:.0f} ms before: {'met' if is_met else 'missed'}"
              f"{'' if has_load else ', too few acknowledgements'}; the move was {end}", flush=True)
        self.finish(mover, returner)
        return end.split(":")[0] if is_met and has_load else None

    def choose_move(self, number):
        """From the server with the most tablets to the one with the fewest, that whose turn was the longest ago."""
        tablets = wait_for(lambda: self.cluster.tablets(self.table),
                           lambda tablets: all(tablet["state"] == "normal" for tablet in tablets),
                           self.options.recovery_ms / 1000)
        owned = self.cluster.owned()
        names = sorted(self.cluster.servers)
        names = names[number % len(names):] + names[:number % len(names)]
        counts = {name: len(owned.get(name, [])) for name in names}
        source = max(names, key=counts.get)
        destination = min((name for name in names if name != source), key=counts.get)
        backup = next(name for name in reversed(names) if name not in (source, destination))
        chosen = min((t for t in tablets if t["server"] == source), key=lambda t: self.moved_last[t["tablet"]])
        self.moved_last[chosen["tablet"]] = time.monotonic()
        moved = f"{chosen['first_hash']}-{chosen['last_hash']}"
        return Choice(chosen["tablet"], source, destination, backup, owned, moved)

    @staticmethod
    def names_of(victim, choice):
        named = {"S": choice.source, "D": choice.destination, "backup": choice.backup, "coordinator": "coordinator"}
        return [named[part] for part in victim.removeprefix("stop-").split("+")]

    def daemons(self, names):
        return [self.cluster.coordinator if name == "coordinator" else self.cluster.servers[name] for name in names]

    def send(self, victim, names):
        """The signal, to all of them before anything else; gives when, by the monotonic clock, and before and after by
        that of the log."""
        number = signal.SIGSTOP if victim.startswith("stop-") else signal.SIGKILL
        daemons = self.daemons(names)
        at_ns = time.monotonic_ns()
        before = time.time()
        for daemon in daemons:
            daemon.signal(number)
        after = time.time()
        for daemon in daemons if number == signal.SIGKILL else []:
            daemon.kill()  # waits for the end
        return at_ns, before, after

    def bring_back(self, victim, names, at_once):
        if victim.startswith("stop-"):
            time.sleep(3 * self.options.lease_ms / 1000)  # this is what these cells are about
            for daemon in self.daemons(names):
                daemon.signal(signal.SIGCONT)
            return
        if "coordinator" in names:
            self.cluster.start_coordinator()
        servers = [name for name in names if name != "coordinator"]
        # One server may also come back after the verification; without two of them new segments find too few others.
        if len(servers) > 1 or at_once:
            self.cluster.start_again(servers)

    def await_end(self, move):
        """Waits until the move is over; gives how it ended."""
        deadline = time.monotonic() + self.options.recovery_ms / 1000
        while True:
            done = self.cluster.run("rcmigrate", "status", move, "--json", check=False)
            status = json.loads(done.stdout) if done.returncode == 0 else {}
            if status.get("state") == "done":
                return "done"
            if status.get("state") in ("failed", "cancelled"):
                return f"given up: {status['reason']}"
            if time.monotonic() > deadline:
                raise Violation(f"move {move} is not over after {self.options.recovery_ms} ms: {done.stdout}{done.stderr}")
            time.sleep(0.02)

    def await_one_log_each(self):
        """Every tablet's contents are in one log again, as the coordinator has stored it."""
        with tempfile.TemporaryDirectory() as copy:
            run([tool("ramcore-coordinator"), "--storage", self.cluster.path("coordinator"), "--export",
                 os.path.join(copy, "coordinator.sqlite")])
            logs = coordinator_state.logs_of_tablets(copy)
        divided = {tablet: servers for tablet, servers in logs.items() if len(servers) != 1}
        if divided or len(logs) < TABLE_TO_MOVE["tablets"]:
            raise Violation(f"the move is over, and of {len(logs)} tablets these are not in one log: {divided}")

    @staticmethod
    def finish(*askers):
        """The tools that have asked for the move, and for its end, whatever became of that: the coordinator may have
        died."""
        for asker in askers:
            if asker is not None:
                asker.communicate(timeout=60)


def cells_of(options):
    """Those that one cluster goes through."""
    return options.cell or (CELLS_QUICK if options.quick else CELLS)


def cell(text):
    """As on the command line."""
    found = tuple(text.split(":"))
    if found not in CELLS:
        raise ValueError(f"'{text}' is no VICTIM:PHASE of {', '.join(VICTIMS)} and {', '.join(PHASES)}")
    return found
