#!/usr/bin/env python3
"""A tablet moves under YCSB-B: a time line of what clients see, of what arrives, and of who is asked.

Usage: migration_line_bench.py [--base BIN_DIR] [--rounds 5] [--records 1000000] [--share 0.4] [--transports shm,tcp]
       [--copies 0,2] [--svg FILE] [--json] [--smoke]

95 % reads and 5 % overwrites of keys that are chosen by a zipfian distribution of skew 0.99, at --share of the calls
per second that the servers bear in a closed loop of 64, counted from when each is due. Clusters, tables and --base are
those of migration_bench.py. The time line of the middle one of the rounds is printed: for each 100 ms the quantiles of
the latency, the megabytes that arrived, and the source's share of the calls. Exits with 0 whatever it measured.
"""

import argparse
import json
import sys

from figures import Report, quartile
from migration_bench import ARRIVED, BIN_DIR, CALL_MS_MAX, CALLS, HAND_OVER_MS_MAX, SETTLED_S, SOURCE_PERCENT_MAX, \
    Failed, Subject, Watch, source_percent
from svg_chart import draw

P999_MAX = 6  # times as long as before the move
ZIPFIAN = 0.99
LINE_MS = 100
SCRAPE_EVERY_S = 0.1  # more often would take processors from who is measured
BEFORE_MS, AFTER_MS = 500, 500  # of the line, around the move
QUANTILES = (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"))


class Loaded(Subject):
    """A cluster of one build under this load."""

    def calls_per_s(self):
        """In a closed loop, while nothing moves."""
        seen = json.loads(self.load("moved", "--seconds", self.options.seconds, "--outstanding", 64, "--zipfian",
                                    ZIPFIAN))
        return seen["moving"]["calls_per_s"]

    def move_at(self, rate, seed):
        """One move: what the load has seen, and samples of what both servers count."""
        source, self.owner = self.owner, {"s1": "s2", "s2": "s1"}[self.owner]
        watch = Watch({"source": self.ports[source], "destination": self.ports[self.owner]}, SCRAPE_EVERY_S)
        watch.start()
        try:
            # So many at most that all that are due can be under way, however long they take.
            seen = json.loads(self.load("moved", "--move", "moved", "--to", self.owner, "--seed", seed, "--zipfian",
                                        ZIPFIAN, "--rate", rate, "--outstanding", max(64, int(rate * 0.05)),
                                        "--seconds", self.options.seconds, "--line-ms", LINE_MS))
        finally:
            watch.over.set()
        samples = watch.finish()
        if seen["misses"] or seen["failures"]:
            raise Failed(f"{seen['misses']} reads found nothing, {seen['failures']} calls failed")
        return seen, samples


def between(samples, names, begin_s, end_s):
    """By how much the sum of some counters has grown, as far as the samples show: linear in between."""

    def at(moment_s):
        before = None
        for when, sample in samples:
            value = sum(sample.get(name, 0) for name in names)
            if when >= moment_s:
                if before is None:
                    return value
                share = (moment_s - before[0]) / max(when - before[0], 1e-9)
                return before[1] + share * (value - before[1])
            before = (when, value)
        return before[1]

    return at(end_s) - at(begin_s)


def line_of(seen, samples):
    """The time line of one move, from a moment before it to a moment after."""
    objects = max(seen["objects"], 1)
    last_ms = seen["steps"]["done"] + AFTER_MS
    line = []
    for piece in seen["line"]:
        if not -BEFORE_MS - LINE_MS < piece["ms"] < last_ms or not piece["calls"]:
            continue
        begin_s = seen["begin_s"] + piece["ms"] / 1000
        end_s = begin_s + LINE_MS / 1000
        arrived = between(samples["destination"], [ARRIVED], begin_s, end_s)
        calls = {name: between(of, CALLS, begin_s, end_s) for name, of in samples.items()}
        line.append({**piece, "mb_per_s": arrived / objects * seen["bytes"] / 1e6 / (LINE_MS / 1000),
                     "source_percent": 100 * calls["source"] / max(sum(calls.values()), 1)})
    return line


def judge(seen, samples):
    still, moving = seen["still"], seen["moving"]
    handed_over_s = seen["begin_s"] + (seen["hand_over"]["begin_ms"] + seen["hand_over"]["ms"]) / 1000
    return {**{f"{name} / before": moving[what] / still[what] for name, what in QUANTILES},
            **{f"{name} before": still[what] for name, what in QUANTILES},
            "hand_over_ms": seen["hand_over"]["ms"],
            "call_ms": max(moving[kind]["call"]["ms"] for kind in ("read", "write")),
            "source_percent": source_percent(samples, handed_over_s + SETTLED_S),
            "done_s": seen["steps"]["done"] / 1000, "line": line_of(seen, samples)}


def report_sides(title, moves, report):
    def of(side, what):
        return [move[what] for move in moves[side]] or None

    def figure(name, unit, what, **target):
        report.figure(f"{title}: {name}", unit, of("ours", what), beside=of("base", what), **target)

    for name, _ in QUANTILES:
        figure(f"{name} before the move", "us", f"{name} before")
    for name, _ in QUANTILES:
        figure(f"{name} during it / before", "x", f"{name} / before",
               **({"at_most": P999_MAX} if name == "p99.9" else {}))
    figure("writes refused", "ms", "hand_over_ms", at_most=HAND_OVER_MS_MAX)
    figure("longest call of a move", "ms", "call_ms", at_most=CALL_MS_MAX)
    figure("calls at the source from 100 ms later on", "%", "source_percent", at_most=SOURCE_PERCENT_MAX)
    figure("the move in all", "s", "done_s")


def middle(moves):
    """The move whose p99.9 is the median."""
    wanted = quartile([move["p99.9 / before"] for move in moves], 0.5)
    return next(move for move in moves if move["p99.9 / before"] == wanted)


def print_line(title, line):
    print(f"  {title}: time line; ms from the beginning of the move\n"
          f"    {'ms':>6} {'calls':>7} {'p50 us':>9} {'p99 us':>9} {'p99.9 us':>9} {'MB/s':>7} {'source %':>9}")
    for piece in line:
        print("    {ms:6.0f} {calls:7d} {p50_us:9.1f} {p99_us:9.1f} {p999_us:9.1f} {mb_per_s:7.1f} "
              "{source_percent:9.1f}".format(**piece))
    sys.stdout.flush()


def measure(transport, copies, options, report):
    """Gives the time line of a move of ours."""
    builds = {"ours": BIN_DIR, **({"base": options.base} if options.base else {})}
    subjects, moves = {}, {"ours": [], "base": []}
    try:
        for side, bin_dir in builds.items():
            subjects[side] = Loaded(bin_dir, transport, copies, options)
        rate = options.share * min(subject.calls_per_s() for subject in subjects.values())
        for number in range(options.rounds):
            # Each goes first in every other round: who comes second finds the machine as the first one left it.
            for side in sorted(subjects, reverse=number % 2 == 0):
                moves[side].append(judge(*subjects[side].move_at(rate, number + 1)))
    finally:
        error = sys.exc_info()
        for subject in subjects.values():
            subject.stop(*error)
    title = f"{transport}, {copies}"
    report.figure(f"{title}: calls", "/s", [rate])
    report_sides(title, moves, report)
    line = middle(moves["ours"])["line"]
    if not options.json:
        print_line(title, line)
    return title, line


def picture(lines):
    """SVG: the quantiles over time, a panel for each cluster."""
    panels = {title: {name: [(round(piece["ms"]), piece[what] / 1000) for piece in line] for name, what in QUANTILES}
              for title, line in lines}
    last = max(piece["ms"] for _, line in lines for piece in line)
    return draw(panels, list(range(-BEFORE_MS, int(last) + 1, 500)), "ms from the beginning of the move",
                "latency of a call, ms")


def main():
    parser = argparse.ArgumentParser(description="A tablet moves under YCSB-B.")
    parser.add_argument("--base", metavar="BIN_DIR", help="programs of another build, measured beside ours")
    parser.add_argument("--rounds", type=int, default=5, help="moves of each build (5)")
    parser.add_argument("--seconds", type=float, default=2, help="of load before each move (2)")
    parser.add_argument("--records", type=int, default=1_000_000, help="of 100 B in the table (1000000)")
    parser.add_argument("--share", type=float, default=0.4, help="of the calls per second that are borne (0.4)")
    parser.add_argument("--transports", default="shm,tcp", help="with commas (shm,tcp)")
    parser.add_argument("--copies", default="0,2", help="on other servers, with commas (0,2)")
    parser.add_argument("--svg", metavar="FILE", help="draw the time lines there")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="seconds in all: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.records = 1, 0.3, 20_000
        options.transports, options.copies = "shm", "0"
    report = Report(options.json)
    if not options.json:
        print("  Titles begin with the transport and the number of copies on other servers.", flush=True)
    lines = [measure(transport, int(copies), options, report) for copies in options.copies.split(",")
             for transport in options.transports.split(",")]
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(picture(lines))
    report.finish("migration_line", {name: getattr(options, name) for name in ("rounds", "records", "share")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
