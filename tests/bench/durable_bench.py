#!/usr/bin/env python3
"""Replicated writes: latency beside what the same messages cost at least, processor time on the primary, and tables that
wait for the disk beside the disk and beside Redis.

Usage: durable_bench.py [--rounds 7] [--seconds 2] [--no-peers] [--json] [--smoke]

One cluster per number of copies, each a coordinator and 4 servers, of which one has the only tablet. Rounds are
interleaved, and a cluster that has no round is idle. Whoever is faster on a machine with fewer cores than processes
is decided by the scheduler as well: nothing is bound to a core. RAMCORE_BIN_DIR says where the tools are, and
bench_write_limits is looked for beside that folder. Exits with 0 whatever it measured.
"""

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import BIN_DIR, Cluster, Failed, run  # noqa: E402 (the path comes first)
from figures import Report, ratios  # noqa: E402

LIMITS = os.path.join(BIN_DIR, "..", "bench_write_limits")
RECORDS = 10_000
P50_US_MAX = {"tcp": 60, "shm": 25}
SYNC_RATIO_MAX = 1.4
REDIS_RATIO_MIN = 1.0
OUTSTANDING = 50


def cpu_us(pid):
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="utf-8") as file:
            total += int(file.read().split()[0])
    return total / 1000


class Subject:
    """A cluster with one table of one tablet."""

    def __init__(self, copies, transport, durability):
        self.copies, self.transport, self.durability = copies, transport, durability
        self.cluster = Cluster(memory="256MiB", name="durable", transports=sorted({"tcp", transport}), replicas=copies,
                               storage="1GiB", autostart=False)
        self.cluster.leaves_everything = False  # nobody asks what a benchmark leaves
        self.pid = None

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.cluster.start_coordinator()
            least = ["--min-replicas", str(self.copies)] if self.copies else []
            for server in [self.cluster.start_server(f"s{i}", wait=False, extra=least) for i in range(1, 5)]:
                server.wait_ready()
            create = ["create", "rcbench", "--tablets", "1"]
            if self.durability == "sync":
                create += ["--durability", "sync"]
            self.cluster.rc(*create)
            self.load("--load-only")
            status = json.loads(self.cluster.rc("status", "--json"))
            owner = status["tables"][0]["tablets"][0]["owner"]
            name = next(server["name"] for server in status["servers"] if server["id"] == owner)
            self.pid = self.cluster.servers[name].process.pid
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, traceback):
        self.cluster.__exit__(kind, value, traceback)

    def load(self, *flags):
        return self.cluster.run("rcbench", "--records", RECORDS, "--transport", self.transport, *flags,
                                scheme=self.transport).stdout

    def writes(self, seconds, outstanding=1):
        """Overwrites of records chosen uniformly, in a closed loop."""
        before = cpu_us(self.pid)
        done = json.loads(self.load("--no-load", "--read-ratio", 0, "--distribution", "uniform", "--warmup-s", 0.3,
                                    "--duration-s", seconds, "--outstanding", outstanding, "--json"))
        share = seconds / (seconds + 0.3)  # of the load that is measured
        return {"p50_us": done["latency_us"]["p50"], "p99_us": done["latency_us"]["p99"], "rate": done["operations_per_s"],
                "cpu_us": (cpu_us(self.pid) - before) * share / max(1, done["operations"])}


class Redis:
    """A server of our own that flushes every write, and redis-benchmark with as many connections as we have calls."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ramcore-bench-")
        self.socket = os.path.join(self.folder, "redis.sock")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "yes",
             "--appendfsync", "always", "--dir", self.folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 20
        while not os.path.exists(self.socket):  # somebody else's program, which says nothing when it listens
            if time.monotonic() > end or self.process.poll() is not None:
                self.stop()
                raise Failed("redis-server does not start; tools/setup --bench installs it")
            time.sleep(0.02)

    def rate(self, seconds):
        calls = 2000
        while True:
            begin = time.monotonic()
            run(["redis-benchmark", "-s", self.socket, "-t", "set", "-c", str(OUTSTANDING), "-n", str(calls), "-d", "100",
                 "-r", str(RECORDS), "-q"])
            took = time.monotonic() - begin
            if took >= seconds / 2:
                return calls / took
            calls = int(calls * max(2, seconds / max(took, 0.01)))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)


def limit(what, seconds):
    return json.loads(run([LIMITS, "--limit", what, "--seconds", str(seconds)]).stdout)


def measure_copies(options, transport, report):
    subjects, rounds = {}, {copies: [] for copies in range(4)}
    limits = []
    try:
        for copies in range(4):
            subjects[copies] = Subject(copies, transport, "buffered").__enter__()
        for _ in range(options.rounds):
            limits.append(limit(transport, options.seconds)["p50_us"])
            for copies, subject in subjects.items():
                rounds[copies].append(subject.writes(options.seconds))
    finally:
        error = sys.exc_info()
        for subject in subjects.values():
            subject.__exit__(*error)
    p50 = {copies: [row["p50_us"] for row in rounds[copies]] for copies in rounds}
    report.figure(f"{transport}: write, 3 copies, the messages alone", "us", limits)
    report.figure(f"{transport}: write, 3 copies", "us", p50[3], at_most=P50_US_MAX[transport])
    report.figure(f"{transport}: write, 3 copies / the messages alone", "x", ratios(p50[3], limits))
    for copies in rounds:
        report.figure(f"{transport}: write, {copies} copies: p50", "us", p50[copies])
        report.figure(f"{transport}: write, {copies} copies: primary's processor", "us",
                      [row["cpu_us"] for row in rounds[copies]])


def measure_sync(options, transport, report):
    """One at a time beside the disk; many at once, over tcp, beside Redis."""
    disk, one, many, redis_rates = [], [], [], []
    redis = Redis() if options.peers and transport == "tcp" else None
    try:
        with Subject(3, transport, "sync") as subject:
            for _ in range(options.rounds):
                disk.append(limit("sync", options.seconds)["p50_us"])
                one.append(subject.writes(options.seconds)["p50_us"])
                if transport == "tcp":
                    many.append(subject.writes(options.seconds, OUTSTANDING)["rate"])
                if redis:
                    redis_rates.append(redis.rate(options.seconds))
    finally:
        if redis:
            redis.stop()
    report.figure(f"{transport}: 3 x (pwrite 4 KB + fdatasync) side by side", "us", disk)
    report.figure(f"{transport}: sync write, 3 copies flushed", "us", one)
    report.figure(f"{transport}: sync write / the disk", "x", ratios(one, disk), at_most=SYNC_RATIO_MAX)
    if many:
        report.figure(f"sync writes, {OUTSTANDING} outstanding, 3 copies each", "/s", many)
    if redis_rates:
        report.figure(f"redis appendfsync always, {OUTSTANDING} outstanding, 1 copy", "/s", redis_rates)
        report.figure("sync writes / redis", "x", ratios(many, redis_rates), at_least=REDIS_RATIO_MIN)


def main():
    parser = argparse.ArgumentParser(description="Replicated writes.")
    parser.add_argument("--rounds", type=int, default=7, help="of each side (7)")
    parser.add_argument("--seconds", type=float, default=2, help="of a round (2)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without Redis")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="seconds in all: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.peers = 1, 0.2, False
    report = Report(options.json)
    for transport in ("tcp", "shm"):
        measure_copies(options, transport, report)
    for transport in ("tcp", "shm"):
        measure_sync(options, transport, report)
    report.finish("durable", {"rounds": options.rounds, "seconds": options.seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
