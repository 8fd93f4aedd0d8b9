#!/usr/bin/env python3
"""A tablet moves under load, back and forth: for how long writes are refused, how long a call waits at most, which
server is asked afterwards, when the contents have arrived, and what calls to a third server notice.

Usage: migration_bench.py [--base BIN_DIR] [--rounds 6] [--seconds 2] [--records 1000000] [--outstanding 64]
       [--rate 0] [--transports tcp,shm] [--copies 0,2] [--json] [--smoke]

A cluster for each transport, number of copies and build: two servers between which a table of one tablet moves, a third
one with another table, a fourth one if there are copies. The load is bench_move_load, whose first part, without a move,
is what the second is compared with. --base has the programs of another build; its cluster has the same load, and its
rounds are interleaved with ours. Nothing is bound to a core. RAMCORE_BIN_DIR says where the tools are, and
bench_move_load is looked for beside that folder. Exits with 0 whatever it measured.
"""

import argparse
import json
import os
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import cluster_harness  # noqa: E402 (the path comes first)
from cluster_harness import BIN_DIR, Cluster, Failed  # noqa: E402
from figures import Report, quartile, ratios  # noqa: E402
from metrics_endpoint import free_port, parse  # noqa: E402

LOAD = os.path.join(BIN_DIR, "..", "bench_move_load")
HAND_OVER_MS_MAX = 20
CALL_MS_MAX = 50
SOURCE_PERCENT_MAX = 5
UNMOVED_MAX = 1.07  # calls where nothing moves by those of the other build: a step of the histogram of latencies
SETTLED_S = 0.1  # after the hand-over: clients know the new owner
SCRAPE_EVERY_S = 0.025
SECONDS_MAX = 300  # of one move with its load
CALLS = [f'ramcore_requests_total{{opcode="{opcode}"}}' for opcode in ("Read", "Write")]
ARRIVED = "ramcore_move_objects_arrived_total"
WAITS = "ramcore_move_waits_total"
REFUSED = "ramcore_move_waits_refused_total"


class Watch(threading.Thread):
    """Samples of what two servers count, as {server: [(time, values)]}, from start() to finish()."""

    def __init__(self, ports, every_s=SCRAPE_EVERY_S):
        super().__init__()
        self.ports, self.every_s = ports, every_s
        self.texts = {name: [] for name in ports}
        self.over = threading.Event()
        self.problem = None

    def run(self):
        try:
            while True:
                last = self.over.is_set()
                for name, port in self.ports.items():
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                        self.texts[name].append((time.monotonic(), answer.read()))
                if last:
                    return
                self.over.wait(self.every_s)
        except Exception as problem:  # handed to whoever calls finish()
            self.problem = problem

    def finish(self):
        self.over.set()
        self.join()
        if self.problem:
            raise self.problem
        return {name: [(when, parse(text.decode())[0]) for when, text in texts] for name, texts in self.texts.items()}


class Subject:
    """A cluster of one build. The tools are always our own."""

    def __init__(self, bin_dir, transport, copies, options):
        self.transport, self.options = transport, options
        self.ports = {}
        memory = max(128, options.records * 512 >> 20)
        self.cluster = Cluster(memory=f"{memory}MiB", name="migration", transports=(transport,), replicas=copies,
                               storage=f"{4 * memory}MiB", autostart=False)
        self.cluster.leaves_everything = False  # nobody asks what a benchmark leaves
        self.cluster.__enter__()
        try:
            self.start(bin_dir, copies)
            self.owner = "s1"
            for table, server in (("moved", self.owner), ("still", "s3")):
                self.cluster.rc("create", table, "--tablets", "1")
                tablet = self.cluster.tablets(table)[0]
                self.cluster.run("rcmigrate", "move", tablet["tablet"], "--to", server)
                self.load(table, "--load")
        except BaseException:
            self.stop(*sys.exc_info())
            raise

    def start(self, bin_dir, copies):
        with cluster_harness.programs_of(bin_dir):
            self.cluster.start_coordinator()
            servers = []
            for name in ("s1", "s2", "s3", "s4")[:4 if copies else 3]:
                self.ports[name] = free_port()
                servers.append(self.cluster.start_server(name, wait=False,
                                                         extra=["--metrics", f"127.0.0.1:{self.ports[name]}"]))
        for server in servers:
            server.wait_ready()

    def stop(self, *error):
        self.cluster.__exit__(*(error or (None, None, None)))

    def load(self, table, *flags):
        command = self.cluster.load_command(LOAD) + ["--transport", self.transport, "--table", table, "--records",
                                                     str(self.options.records)]
        return cluster_harness.run(command + [str(flag) for flag in flags], timeout=SECONDS_MAX).stdout

    def move(self, loaded, seed):
        """The table goes to the other server, while there is load on `loaded`."""
        source, self.owner = self.owner, {"s1": "s2", "s2": "s1"}[self.owner]
        watch = Watch({"source": self.ports[source], "destination": self.ports[self.owner]})
        watch.start()
        try:
            pace = ["--rate", self.options.rate] if self.options.rate else []
            seen = json.loads(self.load(loaded, "--move", "moved", "--to", self.owner, "--seed", seed, "--outstanding",
                                        self.options.outstanding, "--seconds", self.options.seconds, *pace))
        finally:
            watch.over.set()
        samples = watch.finish()
        if seen["misses"]:
            raise Failed(f"{seen['misses']} reads found nothing")
        return seen, samples


def last_change(samples, name, begin_s):
    """When a counter had its last value, as the samples show; None: it is not counted."""
    values = [(when, sample[name]) for when, sample in samples if name in sample]
    if not values or values[-1][1] == values[0][1]:
        return None
    return next(when for when, value in values if value == values[-1][1]) - begin_s


def source_percent(samples, settled_s):
    """Of the calls from then on: the share that came to the source."""
    counts = {}
    for name, of in samples.items():
        after = [sum(sample.get(call, 0) for call in CALLS) for when, sample in of if when >= settled_s]
        counts[name] = after[-1] - after[0] if after else 0
    total = sum(counts.values())
    if not total:
        raise Failed("no call was counted after the hand-over")
    return 100 * counts["source"] / total


def grown(samples, name):
    """By how much a counter has grown; 0 if it is not counted."""
    return samples[-1][1].get(name, 0) - samples[0][1].get(name, 0)


def requests(samples, opcode):
    return grown(samples, f'ramcore_requests_total{{opcode="{opcode}"}}')


def milliseconds_in(samples, opcode, where="service"):
    """How long requests of that kind took at a server, or waited for it to begin ("queue"), all together."""
    return 1000 * grown(samples, f'ramcore_request_{where}_seconds_sum{{opcode="{opcode}"}}')


def judge_move(seen, samples):
    """The figures of one move with load on the table that moves."""
    begin_s, still, moving = seen["begin_s"], seen["still"], seen["moving"]
    handed_over_s = (seen["hand_over"]["begin_ms"] + seen["hand_over"]["ms"]) / 1000
    one_log_s = min(seen["steps"].get(step, float("inf")) for step in ("arrived", "done")) / 1000
    # A move of the earlier kind hands over what has arrived.
    arrived_s = min(last_change(samples["destination"], ARRIVED, begin_s) or handed_over_s, one_log_s)
    pulls = requests(samples["source"], "PullHashes")
    return {"hand_over_ms": seen["hand_over"]["ms"],
            "read_ms": moving["read"]["call"]["ms"], "write_ms": moving["write"]["call"]["ms"],
            "call_ms": max(moving[kind]["call"]["ms"] for kind in ("read", "write")),
            "still_call_ms": max(still[kind]["call"]["ms"] for kind in ("read", "write")),
            "still_gap_ms": still["write"]["gap"]["ms"],
            "source_percent": source_percent(samples, begin_s + handed_over_s + SETTLED_S),
            "handed_over_s": handed_over_s, "arrived_s": arrived_s, "one_log_s": one_log_s,
            "mb_per_s": seen["bytes"] / 1e6 / arrived_s,
            "p50": moving["p50_us"] / still["p50_us"], "p99": moving["p99_us"] / still["p99_us"],
            "rate": moving["calls_per_s"] / still["calls_per_s"],
            "waits": grown(samples["destination"], WAITS), "refused": grown(samples["destination"], REFUSED),
            "pulls": pulls, "pull_ms": milliseconds_in(samples["source"], "PullHashes") / max(1, pulls),
            "queued_ms": milliseconds_in(samples["source"], "PullHashes", "queue") / max(1, pulls),
            "failures": seen["failures"],
            "coordinator_ms": seen["coordinator_ms"],
            "asked": requests(samples["destination"], "AdoptTablet"),
            "freeze_ms": milliseconds_in(samples["source"], "FreezeTablet"),
            "results_ms": milliseconds_in(samples["source"], "PullResults"),
            "lend_ms": milliseconds_in(samples["source"], "LendTablet"),
            "take_ms": milliseconds_in(samples["destination"], "TakeTablet")}


class Sides:
    """What is measured of both builds, round by round: ours, and the other if there is one."""

    def __init__(self, transport, copies, options):
        self.options = options
        builds = {"ours": BIN_DIR, **({"base": options.base} if options.base else {})}
        self.subjects = {}
        self.moves = {side: [] for side in builds}
        self.elsewhere = {side: [] for side in builds}
        try:
            for side, bin_dir in builds.items():
                self.subjects[side] = Subject(bin_dir, transport, copies, options)
        except BaseException:
            self.stop(*sys.exc_info())
            raise

    def stop(self, *error):
        for subject in self.subjects.values():
            subject.stop(*error)

    def round(self, number):
        # Each goes first in every other round: who comes second finds the machine as the first one left it.
        for side in sorted(self.subjects, reverse=number % 2 == 0):
            subject = self.subjects[side]
            self.moves[side].append(judge_move(*subject.move("moved", 2 * number + 1)))
            self.elsewhere[side].append(subject.move("still", 2 * number + 2)[0])

    def of(self, side, what):
        return [move[what] for move in self.moves[side]]


# Name, unit, target, and the figure of one move.
OF_A_MOVE = (
    ("writes refused", "ms", HAND_OVER_MS_MAX, "hand_over_ms"),
    ("longest call of a move", "ms", None, "call_ms"),
    ("calls at the source from 100 ms later on", "%", SOURCE_PERCENT_MAX, "source_percent"),
    ("until handed over", "s", None, "handed_over_s"),
    ("until arrived", "s", None, "arrived_s"),
    ("until one log", "s", None, "one_log_s"),
    ("moved until arrived", "MB/s", None, "mb_per_s"),
    ("calls/s / without a move", "x", None, "rate"),
    ("p50 of calls / without a move", "x", None, "p50"),
    ("p99 of calls / without a move", "x", None, "p99"),
    ("calls without an answer in 30 s", "", None, "failures"),
)
# Where the times come from, of our build alone.
WHY = (
    ("longest time without a write, without a move", "ms", "still_gap_ms"),
    ("longest call without a move", "ms", "still_call_ms"),
    ("coordinator: freezing to new owner, at most", "ms", "coordinator_ms"),
    ("FreezeTablet: drain, wait until durable", "ms", "freeze_ms"),
    ("AdoptTablet: how often it was asked", "", "asked"),
    ("PullResults, at the source", "ms", "results_ms"),
    ("LendTablet: nobody reads there any more", "ms", "lend_ms"),
    ("TakeTablet, when arriving and when arrived", "ms", "take_ms"),
    ("longest read of a move", "ms", "read_ms"),
    ("longest write of a move", "ms", "write_ms"),
    ("calls that waited for their key", "", "waits"),
    ("of these, told after 0.5 s to try again", "", "refused"),
    ("requests for such keys", "", "pulls"),
    ("such a request, at the source", "ms", "pull_ms"),
    ("such a request, before the source begins it", "ms", "queued_ms"),
)
ELSEWHERE = (("p50", "p50_us"), ("p99", "p99_us"), ("calls/s", "calls_per_s"))


def report_sides(title, sides, report):
    base = "base" in sides.moves
    for name, unit, at_most, what in OF_A_MOVE:
        report.figure(f"{title}: {name}", unit, sides.of("ours", what), at_most=at_most,
                      beside=sides.of("base", what) if base else None)
    report.figure(f"{title}: longest call of all moves", "ms", [max(sides.of("ours", "call_ms"))], at_most=CALL_MS_MAX,
                  beside=[max(sides.of("base", "call_ms"))] if base else None)
    for name, unit, what in WHY:
        report.figure(f"{title}: {name}", unit, sides.of("ours", what))
    for name, what in ELSEWHERE:
        changes = {side: ratios([seen["moving"][what] for seen in of], [seen["still"][what] for seen in of])
                   for side, of in sides.elsewhere.items()}
        report.figure(f"{title}: third server, {name} / without a move", "x", changes["ours"],
                      beside=changes.get("base"))
    if base:
        report_unmoved(title, sides, report)


def report_unmoved(title, sides, report):
    """Calls to a server that moves nothing, while nothing moves: this build by the other. They may differ by as much as
    the other build does from itself from one round to the next, which is the noise."""
    for name, what in ELSEWHERE:
        ours, base = ([seen["still"][what] for seen in sides.elsewhere[side]] for side in ("ours", "base"))
        changes = [max(ratio, 1 / ratio) for ratio in ratios(base[1:], base)]
        at_most = max([UNMOVED_MAX, *([quartile(changes, 0.5)] if changes else [])])
        target = {"at_least": 1 / at_most} if what == "calls_per_s" else {"at_most": at_most}
        report.figure(f"{title}: nothing moves, {name} / other build", "x", ratios(ours, base), **target)


def steal_s():
    with open("/proc/stat", encoding="utf-8") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def measure(transport, copies, options, report):
    title = f"{transport}, {copies}"
    sides = Sides(transport, copies, options)
    try:
        for number in range(options.rounds):
            sides.round(number)
    finally:
        error = sys.exc_info()
        sides.stop(*error)
    report_sides(title, sides, report)


def main():
    parser = argparse.ArgumentParser(description="A tablet moves under load.")
    parser.add_argument("--base", metavar="BIN_DIR", help="programs of another build, measured beside ours")
    parser.add_argument("--rounds", type=int, default=6, help="moves of each kind and side (6)")
    parser.add_argument("--seconds", type=float, default=2, help="of load before each move (2)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of 100 B in the table (1000000)")
    parser.add_argument("--outstanding", type=int, default=64, help="calls in flight (64)")
    parser.add_argument("--rate", type=float, default=0,
                        help="calls per second, counted from when each is due; 0: the next when one has ended (0)")
    parser.add_argument("--transports", default="tcp,shm", help="with commas (tcp,shm)")
    parser.add_argument("--copies", default="0,2", help="on other servers, with commas (0,2)")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="seconds in all: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.records = 1, 0.2, 20_000
    report = Report(options.json)
    stolen_s, begin_s = steal_s(), time.monotonic()
    pairs = [(transport, int(copies)) for copies in options.copies.split(",")
             for transport in options.transports.split(",")]
    if not options.json:
        print("  Titles begin with the transport and the number of copies on other servers.", flush=True)
    for transport, copies in pairs[::3] if options.smoke else pairs:
        measure(transport, copies, options, report)
    settings = {name: getattr(options, name) for name in ("rounds", "seconds", "records", "outstanding", "rate")}
    machine = {"steal_s": steal_s() - stolen_s, "seconds_in_all": time.monotonic() - begin_s,
               "load": os.getloadavg()[0]}
    if not options.json:
        print("  {seconds_in_all:.0f} s, steal {steal_s:.1f} s, load at the end {load:.1f}".format(**machine))
    report.finish("migration", {**settings, **machine})
    return 0


if __name__ == "__main__":
    sys.exit(main())
