#!/usr/bin/env python3
"""A tablet moves while nobody calls: how fast, what it costs each side, and how far that is from what bounds it.

Usage: migration_idle_bench.py [--base BIN_DIR] [--rounds 6] [--sizes 1000000x100,300000x1000] [--transports shm,tcp]
       [--copies 0,2] [--no-redis] [--json] [--smoke]

A cluster for each size (objects x bytes of a value), transport, number of copies and build: two servers between which a
table of one tablet moves back and forth. --base has the programs of another build, whose moves are interleaved with
ours. The limits are those of bench_move_limits. The peer is `redis-cli --cluster reshard` between two Redis servers
with the same data. Nothing is bound to a core. RAMCORE_BIN_DIR says where the tools are, and the benchmarks beside that
folder. Exits with 0 whatever it measured.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import cluster_harness  # noqa: E402 (the path comes first)
from cluster_harness import BIN_DIR, Cluster, Failed  # noqa: E402
from figures import Report, ratios  # noqa: E402
from metrics_endpoint import free_port  # noqa: E402

LOAD = os.path.join(BIN_DIR, "..", "bench_move_load")
LIMITS = os.path.join(BIN_DIR, "..", "bench_move_limits")
BY_BASE_MIN = 3  # times as fast as the other build: of the move in all, idle, over shm, without copies
BY_REPLAY_MIN = 0.4  # of the rate of bench_move_limits' replay
BY_REDIS_MIN = 40
SOURCE_NS_MAX, DESTINATION_NS_MAX = 250, 300  # processor time for an object of 100 B
SECONDS_MAX = 600
SETTLE_S = 0.2  # before each move: what the one before has left is given back
SLOTS = 16384  # of a cluster of Redis


def processor_ns(process):
    """What all threads of a process have run so far."""
    total = 0
    for path in glob.glob(f"/proc/{process.pid}/task/*/schedstat"):
        with open(path, encoding="utf-8") as file:
            total += int(file.read().split()[0])
    return total


class Subject:
    """A cluster of one build. The tools are always our own."""

    def __init__(self, bin_dir, transport, copies, objects, value_bytes):
        self.transport, self.objects, self.value_bytes = transport, objects, value_bytes
        memory = max(128, (objects * (value_bytes + 80) * 5 >> 20) + 64)
        self.cluster = Cluster(memory=f"{memory}MiB", name="idle", transports=(transport,), replicas=copies,
                               storage=f"{4 * memory}MiB", autostart=False)
        self.cluster.leaves_everything = False  # nobody asks what a benchmark leaves
        self.cluster.__enter__()
        try:
            self.start(bin_dir, copies)
            self.owner = "s1"
            self.cluster.rc("create", "moved", "--tablets", "1")
            self.cluster.run("rcmigrate", "move", self.cluster.tablets("moved")[0]["tablet"], "--to", self.owner)
            self.run_load("--load", "--value-bytes", value_bytes)
        except BaseException:
            self.stop(*sys.exc_info())
            raise

    def start(self, bin_dir, copies):
        with cluster_harness.programs_of(bin_dir):
            self.cluster.start_coordinator()
            servers = [self.cluster.start_server(name, wait=False) for name in ("s1", "s2", "s3")[:max(2, copies + 1)]]
        for server in servers:
            server.wait_ready()

    def stop(self, *error):
        self.cluster.__exit__(*(error or (None, None, None)))

    def run_load(self, *flags):
        command = self.cluster.load_command(LOAD) + ["--transport", self.transport, "--table", "moved", "--records",
                                                     str(self.objects)]
        return cluster_harness.run(command + [str(flag) for flag in flags], timeout=SECONDS_MAX).stdout

    def move(self):
        """The figures of one move."""
        source = self.cluster.servers[self.owner]
        self.owner = {"s1": "s2", "s2": "s1"}[self.owner]
        destination = self.cluster.servers[self.owner]
        time.sleep(SETTLE_S)
        said_before = destination.said()
        before = [processor_ns(server.process) for server in (source, destination)]
        seen = json.loads(self.run_load("--move", "moved", "--to", self.owner, "--idle"))
        after = [processor_ns(server.process) for server in (source, destination)]
        steps = seen["steps"]
        figures = {"all_s": steps["done"] / 1000,
                   "one_log_s": min(steps.get("arrived", steps["done"]), steps["done"]) / 1000,
                   "source_ns": (after[0] - before[0]) / self.objects,
                   "destination_ns": (after[1] - before[1]) / self.objects}
        if "arriving" in steps:
            figures["handed_over_s"] = steps["arriving"] / 1000
        said = re.findall(r"has arrived from server \d+: (\d+) objects, (\d+) bytes in (\d+) ms; its (\d+) partitions "
                          r"together waited (\d+) ms for the source and (\d+) ms for room, and took (\d+) ms",
                          destination.said()[len(said_before):])
        if said:
            objects, _, arrived_ms, _, source_ms, room_ms, replay_ms = map(int, said[-1])
            if objects < self.objects:
                raise Failed(f"{objects} objects have arrived, and not {self.objects}")
            figures.update(arrival_s=arrived_ms / 1000, source_wait_s=source_ms / 1000, room_wait_s=room_ms / 1000,
                           replay_s=replay_ms / 1000)
        return figures


class Limits:
    """What bench_move_limits says, in ns for each object."""

    def __init__(self, objects, value_bytes, rounds):
        done = cluster_harness.run([LIMITS, "--objects", str(objects), "--value-bytes", str(value_bytes), "--rounds",
                                    str(max(1, rounds // 2))], timeout=SECONDS_MAX)
        line = next(line for line in done.stdout.splitlines() if line.startswith("json "))
        self.figures = {result["name"]: result["median"] for result in json.loads(line[len("json "):])["results"]}


class Redis:
    """Two servers of Redis that share the slots of a cluster: `redis-cli --cluster reshard` moves some of them."""

    PIPELINE_KEYS = 10_000

    def __init__(self, objects, value_bytes):
        self.folder = tempfile.mkdtemp(prefix="ramcore-redis-")
        self.processes, self.ports = [], []
        try:
            for _ in range(2):
                self.start()
            ids = [self.ask(port, "cluster", "myid") for port in self.ports]
            self.ask(self.ports[0], "cluster", "addslotsrange", "0", str(SLOTS - 1))
            self.ask(self.ports[1], "cluster", "meet", "127.0.0.1", str(self.ports[0]))
            self.await_cluster()
            self.ids = ids
            self.load(objects, value_bytes)
        except BaseException:
            self.stop()
            raise

    def start(self):
        port = free_port()
        folder = os.path.join(self.folder, str(port))
        os.mkdir(folder)
        with open(os.path.join(folder, "log"), "wb") as log:
            self.processes.append(subprocess.Popen(
                ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                 "--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--dir", folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        self.ports.append(port)
        cluster_harness.wait_for(lambda: self.ask(port, "ping", check=False), lambda answer: answer == "PONG")

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def ask(self, port, *words, check=True):
        return cluster_harness.run(["redis-cli", "-p", str(port), *words], check=check).stdout.strip()

    def await_cluster(self):
        for port in self.ports:
            cluster_harness.wait_for(lambda: self.ask(port, "cluster", "info"),
                                     lambda info: "cluster_state:ok" in info and "cluster_known_nodes:2" in info)

    def load(self, objects, value_bytes):
        value = "v" * value_bytes
        for first in range(0, objects, self.PIPELINE_KEYS):
            keys = (f"object/{number:023d}" for number in range(first, min(objects, first + self.PIPELINE_KEYS)))
            text = "".join(f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n" for key in keys)
            cluster_harness.run(["redis-cli", "-p", str(self.ports[0]), "--pipe"], stdin=text)

    def keys_per_s(self, slots):
        """Of moving so many slots from the first server to the second one."""
        before = int(self.ask(self.ports[1], "dbsize"))
        begin_s = time.monotonic()
        cluster_harness.run(["redis-cli", "--cluster", "reshard", f"127.0.0.1:{self.ports[0]}", "--cluster-from",
                             self.ids[0], "--cluster-to", self.ids[1], "--cluster-slots", str(slots), "--cluster-yes"],
                            timeout=SECONDS_MAX)
        seconds = time.monotonic() - begin_s
        return (int(self.ask(self.ports[1], "dbsize")) - before) / seconds


def reshard(objects, value_bytes, rounds):
    """Keys per second of Redis, round by round."""
    redis = Redis(objects, value_bytes)
    try:
        return [redis.keys_per_s(SLOTS // (4 * rounds)) for _ in range(rounds)]
    finally:
        redis.stop()


# Name, unit, and the figure of one move.
OF_A_MOVE = (
    ("the move in all", "s", "all_s"),
    ("until handed over", "s", "handed_over_s"),
    ("from handing over until arrived", "s", "arrival_s"),
    ("until one log", "s", "one_log_s"),
    ("partitions waited for the source, summed up", "s", "source_wait_s"),
    ("partitions waited for room, summed up", "s", "room_wait_s"),
    ("replay, summed up", "s", "replay_s"),
)


def report_moves(title, ours, base, limits, report, objects, value_bytes, is_judged):
    def of(moves, what):
        return [move[what] for move in moves if what in move]

    for name, unit, what in OF_A_MOVE:
        values, others = of(ours, what), of(base, what)
        if values:
            report.figure(f"{title}: {name}", unit, values, beside=others or None)
    is_small = value_bytes <= 100
    for side, at_most in (("source", SOURCE_NS_MAX), ("destination", DESTINATION_NS_MAX)):
        report.figure(f"{title}: {side}'s processor, an object", "ns", of(ours, f"{side}_ns"),
                      at_most=at_most if is_small else None, beside=of(base, f"{side}_ns") or None)
    if base:
        report.figure(f"{title}: other build / this one, in all", "x", ratios(of(base, "all_s"), of(ours, "all_s")),
                      at_least=BY_BASE_MIN if is_judged else None)
    arrival_ns = [seconds * 1e9 / objects for seconds in of(ours, "arrival_s")]
    for limit, limit_ns in limits.figures.items():
        report.figure(f"{title}: arrival by {limit}", "x", [limit_ns / ns for ns in arrival_ns],
                      at_least=BY_REPLAY_MIN if limit == "replay, one worker" and is_judged else None)


def measure(transport, copies, size, limits, options, report):
    objects, value_bytes = size
    builds = {"ours": BIN_DIR, **({"base": options.base} if options.base else {})}
    subjects, moves = {}, {side: [] for side in ("ours", "base")}
    try:
        for side, bin_dir in builds.items():
            subjects[side] = Subject(bin_dir, transport, copies, objects, value_bytes)
        for number in range(options.rounds):
            # Each goes first in every other round: who comes second finds the machine as the first one left it.
            for side in sorted(subjects, reverse=number % 2 == 0):
                moves[side].append(subjects[side].move())
    finally:
        error = sys.exc_info()
        for subject in subjects.values():
            subject.stop(*error)
    is_judged = transport == "shm" and copies == 0
    report_moves(f"{transport}, {copies}, {value_bytes} B", moves["ours"], moves["base"], limits, report, objects,
                 value_bytes, is_judged)
    return moves["ours"]


def measure_size(size, options, report):
    objects, value_bytes = size
    limits = Limits(objects, value_bytes, options.rounds)
    for name, limit_ns in limits.figures.items():
        report.figure(f"{value_bytes} B: {name}, an object", "ns", [limit_ns])
    redis = reshard(objects, value_bytes, options.rounds) if options.redis else []
    if redis:
        report.figure(f"{value_bytes} B: redis-cli --cluster reshard", "keys/s", redis)
    for copies in options.copies.split(","):
        for transport in options.transports.split(","):
            moves = measure(transport, int(copies), size, limits, options, report)
            if redis and copies == "0":
                rates = [objects / move["all_s"] for move in moves]
                report.figure(f"{transport}, 0, {value_bytes} B: keys/s / reshard's", "x", ratios(rates, redis),
                              at_least=BY_REDIS_MIN)


def main():
    parser = argparse.ArgumentParser(description="A tablet moves while nobody calls.")
    parser.add_argument("--base", metavar="BIN_DIR", help="programs of another build, measured beside ours")
    parser.add_argument("--rounds", type=int, default=6, help="moves of each kind and build (6)")
    parser.add_argument("--sizes", default="1000000x100,300000x1000", help="objects x bytes, with commas (%(default)s)")
    parser.add_argument("--transports", default="shm,tcp", help="with commas (%(default)s)")
    parser.add_argument("--copies", default="0,2", help="on other servers, with commas (%(default)s)")
    parser.add_argument("--no-redis", dest="redis", action="store_false", help="without the peer")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="seconds in all: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.sizes, options.redis = 1, "20000x100", False
        options.transports, options.copies = "shm", "0"
    if options.redis and shutil.which("redis-server") is None:
        sys.exit("redis-server is missing: tools/setup --bench installs it; --no-redis leaves it out")
    report = Report(options.json)
    if not options.json:
        print("  Titles begin with the transport, the number of copies on other servers, and the bytes of a value.",
              flush=True)
    for size in options.sizes.split(","):
        measure_size(tuple(int(part) for part in size.split("x")), options, report)
    report.finish("migration_idle", {name: getattr(options, name) for name in ("rounds", "sizes", "redis")})
    return 0


if __name__ == "__main__":
    sys.exit(main())
