#!/usr/bin/env python3
"""What an idle cluster costs: processor time and wake-ups of a coordinator and 4 servers that hold data.

Usage: idle_cpu.py [--seconds 60] [--settle 10] [--records 200000] [--check] [--json] [--smoke]

Starts a cluster, fills it, waits `settle` seconds after the last request, then counts for `seconds`: user and system
time of all processes (/proc/PID/stat) and voluntary context switches of all their threads, which are the wake-ups.
RAMCORE_BIN_DIR says where the tools are. Exits with 0 whatever it measured, with --check 1 if the target was missed.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import Cluster  # noqa: E402 (the path comes first)

CPU_PERCENT_MAX = 2
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def wakeups(pid):
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
    return total


def main():
    parser = argparse.ArgumentParser(description="What an idle cluster costs.")
    parser.add_argument("--seconds", type=float, default=60, help="that are measured (60)")
    parser.add_argument("--settle", type=float, default=10, help="seconds of rest after the last request (10)")
    parser.add_argument("--records", type=int, default=200_000, help="that the cluster holds (200000)")
    parser.add_argument("--check", action="store_true", help="end with 1 if the target was missed")
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    parser.add_argument("--smoke", action="store_true", help="a second, few records: that it runs")
    options = parser.parse_args()
    if options.smoke:
        options.seconds, options.settle, options.records = 1, 1, 1000

    with Cluster(servers=4, memory="256MiB", name="idle") as cluster:
        cluster.run("rcbench", "--records", options.records, "--duration-s", 1)
        processes = {"coordinator": cluster.coordinator, **cluster.servers}
        time.sleep(options.settle)
        before = {name: (cpu_seconds(d.process.pid), wakeups(d.process.pid)) for name, d in processes.items()}
        begin = time.monotonic()
        time.sleep(options.seconds)
        seconds = time.monotonic() - begin
        result = {}
        for name, daemon in processes.items():
            pid = daemon.process.pid
            result[name] = {"cpu_percent": 100 * (cpu_seconds(pid) - before[name][0]) / seconds,
                            "wakeups_per_s": (wakeups(pid) - before[name][1]) / seconds}
        cluster.stop()
    result["all"] = {key: sum(part[key] for part in result.values()) for key in ("cpu_percent", "wakeups_per_s")}
    cpu = result["all"]["cpu_percent"]
    met = cpu < CPU_PERCENT_MAX
    summary = {"bench": "idle", "seconds": seconds, "settle_s": options.settle, "records": options.records,
               "cpu_percent_below": CPU_PERCENT_MAX, "met": met, "processes": result}
    status = 1 if options.check and not met else 0
    if options.json:
        print(json.dumps(summary, indent=2))
        return status
    print(f"{seconds:.1f} s, {options.records} records, {options.settle:.0f} s after the last request")
    print(f"{'process':<12} {'% of a core':>12} {'wake-ups/s':>11}")
    for name, part in result.items():
        print(f"{name:<12} {part['cpu_percent']:>12.2f} {part['wakeups_per_s']:>11.1f}")
    print(f"target < {CPU_PERCENT_MAX} % of a core for all five: {'met' if met else 'MISSED'}")
    print("json " + json.dumps(summary))
    return status


if __name__ == "__main__":
    sys.exit(main())
