#!/usr/bin/env python3
"""What cleaning costs writers of a cluster: overwrites over shm at several utilizations of one server's memory.

Usage: cleaning_bench.py [--memory-mb 1024] [--seconds 20] [--outstanding 16] [--replicas 0,2] [--sizes 100,1000,mixed]
                         [--distributions uniform,zipfian] [--utilizations 30,50,70,80,90,95] [--beside FILE]
                         [--svg FILE] [--json FILE] [--again FILE] [--smoke]

Every point has a cluster of its own: a coordinator, the server that has the only tablet, and as many others as there are
replicas. The server, with its cleaner, is bound to core 1, rcbench to core 0, where it never sleeps if there are no other
servers; the coordinator and the others are not bound. Utilization is the share of the server's memory that the objects
themselves take, header and padding included. After the load the memory is overwritten once, then it is measured for
`seconds`. Mixed sizes are 50 to 150 B (80 %) and 1000 to 2000 B in the first half of what is measured, 280 to 480 B,
with the same mean, in the second. What a server refuses for want of space is said to be refused. Every phase has a limit
of time; `cut` says that the limit came before the memory had been overwritten. Operations that failed otherwise are named
in their row.

Prints tables for docs/cleaning.md. --beside is the output of a run of bench_cleaning, which is drawn beside. --again, as
often as there are files, takes points from what earlier runs printed, and measures nothing.
RAMCORE_BIN_DIR says where the tools are. Exits with 0 whatever it measured.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import Cluster, Failed, run  # noqa: E402 (the path comes first)
import svg_chart  # noqa: E402

SERVER_CORE, CLIENT_CORE = 1, 0
RATIO_MIN, RATIO_AT = 0.6, 90
KEY_BYTES, HEADER_BYTES = 30, 22
OVERWRITE_BYTES = 24  # that it names a segment and carries a result
MIX = ("50-150:80,1000-2000:20", "280-480:1")
LOAD_SECONDS_MAX, OVERWRITE_SECONDS_MAX, GRACE_SECONDS = 300, 300, 60
TIMEOUT_MS = 5000
EXIT_PARTIAL = 3  # of rcbench: some operations failed


def entry_bytes(value_bytes):
    return (HEADER_BYTES + KEY_BYTES + value_bytes + 7) // 8 * 8


def mean_entry_bytes(sizes):
    if sizes != "mixed":
        return entry_bytes(int(sizes))
    small, large = ([entry_bytes(value) for value in range(first, last + 1)] for first, last in ((50, 150), (1000, 2000)))
    return 0.8 * sum(small) / len(small) + 0.2 * sum(large) / len(large)


def size_flags(sizes):
    return ["--value-mix", MIX[0]] if sizes == "mixed" else ["--value-bytes", sizes]


def bind(pid, core):
    """The process with all its threads; those that they start later inherit it. Nothing on a machine with one core."""
    if core >= os.cpu_count():
        return
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Refused(Exception):
    """The server has no space for this."""


class Subject:
    """A cluster with one table of one tablet, filled."""

    def __init__(self, options, replicas, sizes, utilization):
        self.options, self.sizes = options, sizes
        self.memory_bytes = options.memory_mb << 20
        self.records = int(self.memory_bytes * utilization / 100 / mean_entry_bytes(sizes))
        self.replicas = replicas
        self.port = None
        self.cluster = Cluster(memory=f"{options.memory_mb}MiB", name="cleaning", transports=("tcp", "shm"),
                               replicas=replicas, storage=f"{max(256, 3 * options.memory_mb)}MiB", autostart=False)
        self.cluster.leaves_everything = False  # nobody asks what a benchmark leaves

    def __enter__(self):
        self.cluster.__enter__()
        try:
            cluster = self.cluster
            cluster.start_coordinator()
            least = ["--min-replicas", str(self.replicas)] if self.replicas else []
            ports = {f"s{i}": free_port() for i in range(1, self.replicas + 2)}
            for server in [cluster.start_server(name, wait=False, extra=[*least, "--metrics", f"127.0.0.1:{port}"])
                           for name, port in ports.items()]:
                server.wait_ready()
            cluster.rc("create", "rcbench", "--tablets", "1")
            status = json.loads(cluster.rc("status", "--json"))
            owner = status["tables"][0]["tablets"][0]["owner"]
            name = next(server["name"] for server in status["servers"] if server["id"] == owner)
            self.port = ports[name]
            bind(cluster.servers[name].process.pid, SERVER_CORE)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, traceback):
        failed = kind is not None and kind is not Refused
        if failed:  # what there is to know is printed: gigabytes of copies would stay otherwise
            for daemon in [*self.cluster.servers.values(), self.cluster.coordinator]:
                if daemon:
                    print(f"{daemon.name}:\n{daemon.log()}", file=sys.stderr)
        try:
            self.cluster.__exit__(None, None, None)
        except Failed:
            if not failed:
                raise
        finally:
            shutil.rmtree(self.cluster.directory, ignore_errors=True)

    def bench(self, *flags, seconds_max):
        """rcbench on its core. What it printed, also if operations failed; Refused if the server had no space."""
        bound = ["taskset", "-c", str(CLIENT_CORE)] if os.cpu_count() > 1 else []
        # Without other servers nobody else computes there, and a client that sleeps costs the server the waking.
        poll = ["--busy-poll"] if bound and self.replicas == 0 else []
        arguments = self.cluster.arguments("rcbench", "--records", self.records, "--transport", "shm", "--connections", 1,
                                           "--outstanding", self.options.outstanding, "--timeout-ms", TIMEOUT_MS, *poll,
                                           *flags, scheme="shm")
        try:
            done = run(bound + arguments, check=False, timeout=seconds_max + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"rcbench did not end within {seconds_max + GRACE_SECONDS} s: {' '.join(flags)}") from None
        # A call that ended in the middle of an attempt does not know why it was refused: the server's count tells.
        if done.returncode != 0 and self.counters()["ramcore_log_refused_no_space_total"] > 0:
            raise Refused
        if done.returncode not in (0, EXIT_PARTIAL):
            raise Failed(f"rcbench ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def counters(self):
        """Those of the server that have no labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", answer.read().decode(), re.M)}

    def load(self):
        self.bench("--load-only", *size_flags(self.sizes), seconds_max=LOAD_SECONDS_MAX)

    def overwrite(self, distribution, *flags, seconds_max):
        return json.loads(self.bench("--no-load", "--read-ratio", "0", "--distribution", distribution, "--json", *flags,
                                     seconds_max=seconds_max))

    def measure(self, distribution):
        once = int(self.memory_bytes / (mean_entry_bytes(self.sizes) + OVERWRITE_BYTES))
        limit = min(OVERWRITE_SECONDS_MAX, 15 * self.options.seconds)
        first = self.overwrite(distribution, *size_flags(self.sizes), "--warmup-s", "0", "--operations", str(once),
                               "--duration-s", str(limit), seconds_max=limit)
        flags = size_flags(self.sizes)
        if self.sizes == "mixed":
            flags += ["--value-mix-later", MIX[1]]
        before = self.counters()
        done = self.overwrite(distribution, *flags, "--warmup-s", "0.2", "--duration-s", str(self.options.seconds),
                              "--seed", "2", seconds_max=self.options.seconds)
        grown = {name: value - before[name] for name, value in self.counters().items() if name in before}
        return {"copied_per_byte": grown["ramcore_cleaner_copied_bytes_total"] /
                                   max(1, grown["ramcore_log_appended_bytes_total"]),
                "writes_per_s": done["operations_per_s"], "p50_us": done["latency_us"]["p50"],
                "p999_us": done["latency_us"]["p99.9"], "cut": first["operations"] < once,
                "errors": {**first["errors"], **done["errors"]}}


def measure_point(options, replicas, sizes, distribution, utilization):
    point = {"replicas": replicas, "sizes": sizes, "distribution": distribution, "utilization": utilization,
             "refused": False}
    try:
        with Subject(options, replicas, sizes, utilization) as subject:
            subject.load()
            point.update(subject.measure(distribution))
    except Refused:
        point["refused"] = True
    return point


def row(point):
    if point["refused"]:
        return f"| {point['utilization']} % | refused | | | | |"
    note = ", cut" if point["cut"] else ""
    note += "".join(f", {count} {name}" for name, count in point["errors"].items())
    return (f"| {point['utilization']} % | {point['writes_per_s']:,.0f}{note} | {point['ratio']:.2f} | "
            f"{point['copied_per_byte']:.2f} | {point['p50_us']:.0f} | {point['p999_us']:.0f} |")


def measure_curve(options, replicas, sizes, distribution):
    unit = "mixed sizes" if sizes == "mixed" else f"{sizes} B"
    print(f"\n{replicas} replicas, {unit}, {distribution}\n\n| Utilization | Writes/s | Of those at "
          f"{options.utilizations[0]} % | Copied B/B | p50 us | p99.9 us |\n|---|---|---|---|---|---|", flush=True)
    points, first = [], None
    for utilization in options.utilizations:
        point = measure_point(options, replicas, sizes, distribution, utilization)
        if not point["refused"]:
            first = first or point["writes_per_s"]
            point["ratio"] = point["writes_per_s"] / first if first else 0
        points.append(point)
        print(row(point), flush=True)
    judged = next((point for point in points if point["utilization"] == RATIO_AT), None)
    if judged:
        met = not judged["refused"] and judged["ratio"] >= RATIO_MIN
        print(f"\ntarget at {RATIO_AT} % >= {RATIO_MIN}: {'met' if met else 'MISSED'}", flush=True)
    return points


def lines_of(points):
    lines = {}
    for point in points:
        if not point["refused"]:
            lines.setdefault(f"{point['sizes']} {point['distribution']}", []).append((point["utilization"], point["ratio"]))
    return lines


def printed_points(path, bench):
    """The points that all runs of a benchmark printed there."""
    with open(path, encoding="utf-8") as file:
        found = [run for run in (json.loads(line[len("json "):]) for line in file if line.startswith("json "))
                 if run.get("bench") == bench]
    if not found:
        raise Failed(f"{path} has no line 'json ...' of {bench}")
    return [point for run in found for point in run["points"]]


def print_summary(options, points):
    """One table for each number of replicas: writes a second, of those at the lowest utilization, and bytes copied for
    each that was appended."""
    for replicas in options.replicas:
        columns = {}
        for point in points:
            if point["replicas"] == replicas:
                columns.setdefault((point["sizes"], point["distribution"]), {})[point["utilization"]] = point
        if not columns:
            continue
        names = " | ".join(f"{'mixed' if sizes == 'mixed' else sizes + ' B'}, {distribution}"
                           for sizes, distribution in columns)
        print(f"\n{replicas} replicas: thousands of writes/s, ratio, copied B/B\n\n| Utilization | {names} |\n" +
              "|---" * (len(columns) + 1) + "|")
        for utilization in options.utilizations:
            print(f"| {utilization} % | " + " | ".join(cell(column.get(utilization)) for column in columns.values()) + " |")


def cell(point):
    if point is None:
        return ""
    if point["refused"]:
        return "refused"
    ratio = f"{point['ratio']:.2f}"
    judged = point["utilization"] == RATIO_AT
    return (f"{point['writes_per_s'] / 1000:,.0f}, {f'**{ratio}**' if judged else ratio}, "
            f"{point['copied_per_byte']:.1f}")


def draw(options, points):
    panels = {f"{replicas} replicas, over shm": lines_of([p for p in points if p["replicas"] == replicas])
              for replicas in options.replicas if any(p["replicas"] == replicas for p in points)}
    if options.beside:
        panels["in process, one thread"] = lines_of(printed_points(options.beside, "cleaning"))
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(svg_chart.draw(panels, options.utilizations, "utilization, % of memory",
                                  f"writes/s, of those at {options.utilizations[0]} %", RATIO_MIN))


def numbers(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description="What cleaning costs writers of a cluster.")
    parser.add_argument("--memory-mb", type=int, default=1024, help="of each server (1024)")
    parser.add_argument("--seconds", type=float, default=20, help="that are measured of each point (20)")
    parser.add_argument("--outstanding", type=int, default=16, help="writes in flight (16)")
    parser.add_argument("--replicas", type=numbers, default=[0, 2], help="of each server, several with commas (0,2)")
    parser.add_argument("--sizes", default="100,1000,mixed", help="of values (100,1000,mixed)")
    parser.add_argument("--distributions", default="uniform,zipfian", help="of keys (uniform,zipfian)")
    parser.add_argument("--utilizations", type=numbers, default=[30, 50, 70, 80, 90, 95],
                        help="of the memory, in percent (30,50,70,80,90,95)")
    parser.add_argument("--beside", metavar="FILE", help="output of bench_cleaning to draw beside")
    parser.add_argument("--svg", metavar="FILE", help="draw a chart there")
    parser.add_argument("--json", metavar="FILE", help="write all points there as well")
    parser.add_argument("--again", metavar="FILE", action="append", help="measure nothing, take what FILE has; repeatable")
    parser.add_argument("--smoke", action="store_true", help="one point: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.memory_mb, options.seconds, options.replicas, options.utilizations = 128, 0.5, [0], [50]
        options.sizes, options.distributions = "mixed", "zipfian"
    points = [point for path in options.again or [] for point in printed_points(path, "cleaning_shm")]
    if not options.again:
        for replicas in options.replicas:
            for sizes in options.sizes.split(","):
                for distribution in options.distributions.split(","):
                    points += measure_curve(options, replicas, sizes, distribution)
    print_summary(options, points)
    if options.svg:
        draw(options, points)
    if options.again:
        return 0
    summary = {"bench": "cleaning_shm", "memory_bytes": options.memory_mb << 20, "seconds": options.seconds,
               "outstanding": options.outstanding, "points": points}
    print("\njson " + json.dumps(summary))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(summary, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
