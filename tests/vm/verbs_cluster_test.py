#!/usr/bin/env python3
"""A cluster whose processes have nothing but queue pairs: what is written is there after moves under load and after the
death of a server; processes that die leave nothing behind. Runs in a machine with RDMA devices (tests/vm/run)."""

import json
import os
import re
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from adapter_scenario import live_through  # noqa: E402
from cluster_harness import Cluster, Failed, run, wait_for  # noqa: E402
from metrics_endpoint import free_port, scrape  # noqa: E402

DEATHS = int(os.environ.get("RAMCORE_VM_DEATHS", "100"))
DEVICES = (os.environ.get("RDMA_DEV0", ""), os.environ.get("RDMA_DEV1", ""))
LINKS = ("rdma0", "rdma1")  # below these devices (tests/vm/run)
SECRET = "a secret for this machine alone"


def kernel_counts():
    """Queue pairs, regions and the like of all devices, as the kernel counts them."""
    counts = {}
    for line in run(["rdma", "resource", "show"]).stdout.splitlines():
        for kind, count in re.findall(r"\b(pd|cq|qp|mr|ctx|srq) (\d+)", line.split(":", 2)[2]):
            counts[kind] = counts.get(kind, 0) + int(count)
    return counts


def sent(port):
    """What the server has given to its device, and what became of the values that it lent for that."""
    metrics = scrape(port)[0]

    def of_verbs(name):
        return metrics[f'ramcore_sent_{name}_total{{transport="verbs"}}']
    return {"payload": of_verbs("payload_bytes"), "gathered": of_verbs("gathered_bytes"), "chunks": of_verbs("chunks"),
            "copied": of_verbs("long_chunks_copied"), "lent": metrics["ramcore_pins_total"],
            "back": metrics["ramcore_pins_ended_total"]}


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))


class VerbsClusterTest(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.environ.get("RDMA_IP0"), "this machine has no RDMA devices")

    def test_moves_under_load_and_the_death_of_a_server_lose_nothing(self):
        with Cluster(servers=4, secret=SECRET, transports=("verbs",), replicas=2, storage="384MiB",
                     death_after_ms=10000) as cluster:
            status = cluster.status()
            # Also between servers, which could reach each other over nothing else.
            for process in [*status["servers"], status["coordinator"]]:
                self.assertGreater(process["sessions"], 0, process)
                self.assertEqual(process["sessions_by_transport"]["verbs"], process["sessions"], process)
            # Some values are larger than what a receive buffer takes.
            live_through(self, cluster, long_bytes=20000, seconds_max=180)

    def test_what_is_wrong_with_a_device_is_said(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",)) as cluster:
            for device, cause, remedy in ((f"{DEVICES[0]}:5", f"RDMA device {DEVICES[0]} has no port 5", "its ports are 1 to 1"),
                                          (f"{DEVICES[0]}:1:200", "200", "ibv_devinfo -v"),
                                          ("nosuch", "there is no RDMA device 'nosuch'", "there are: " + DEVICES[0])):
                done = run(cluster.arguments("ramcore", "--rdma-device", device, "list"), check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(cause, done.stderr)
                self.assertIn(remedy, done.stderr)
            for device in (DEVICES[1], f"{DEVICES[1]}:1", f"{DEVICES[1]}:1:{os.environ['RDMA_GID_INDEX']}"):
                self.assertEqual(cluster.rc("--rdma-device", device, "list"), "")

    def test_the_best_way_that_both_have_is_taken(self):
        with Cluster(servers=2, secret=SECRET, transports=("tcp", "verbs"), replicas=1) as cluster:
            cluster.run("ramcore", "create", "t", scheme="tcp")
            cluster.run("ramcore", "put", "t", "k", "v", scheme="tcp")
            status = cluster.wait_status(lambda now: now["health"] == "ok" and all(
                any(one["peer_role"] == "server" for one in server["open_sessions"]) for server in now["servers"]))
            for server in status["servers"]:
                used = {one["transport"] for one in server["open_sessions"] if one["peer_role"] == "server"}
                self.assertEqual(used, {"verbs"}, server)

    def test_packets_carry_the_traffic_class(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",)) as cluster:
            # Between the devices packets cross the wire.
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as wire:
                wire.bind((LINKS[0], 0))
                wire.settimeout(1)
                cluster.rc("--rdma-device", DEVICES[1], "--rdma-traffic-class", "104", "list")
                classes = set()
                try:
                    while True:
                        frame = wire.recv(9000)
                        # UDP to the port of RoCE, from the tool: its address is that of the second device.
                        if frame[23] == 17 and frame[36:38] == (4791).to_bytes(2, "big") and frame[26:30] == socket.inet_aton(
                                os.environ["RDMA_IP1"]):
                            classes.add(frame[15])
                except TimeoutError:
                    pass
            self.assertEqual(classes, {104})

    def test_a_port_that_goes_and_comes_back(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",), replicas=0) as cluster:
            server = cluster.start_server("s1", extra=["--rdma-device", DEVICES[1]])
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "before")
            run(["ip", "link", "set", LINKS[1], "down"])
            try:
                wait_for(server.log, lambda log: "the port of " + DEVICES[1] in log and "is down" in log, 60)
                missing = run(cluster.arguments("ramcore", "--rdma-device", DEVICES[1], "list"), check=False)
                self.assertEqual(missing.returncode, 2, missing.stderr)
                self.assertIn(f"RDMA device {DEVICES[1]} has no active port", missing.stderr)
            finally:
                run(["ip", "link", "set", LINKS[1], "up"])
            wait_for(server.log, lambda log: "active again" in log, 60)
            # Sessions come back by themselves, those of the server to the coordinator, too.
            wait_for(cluster.status, lambda now: all(one["answers"] for one in now["servers"]), 60)
            cluster.rc("--timeout-ms", "20000", "put", "t", "k", "after")
            self.assertEqual(cluster.rc("get", "t", "k").strip(), "after")

    def test_multi_reads_are_sent_from_the_log(self):
        """All but heads and what fills a descriptor; a build that copies once more (the mutation) is found out."""
        with Cluster(servers=1, secret=SECRET, transports=("verbs",), autostart=False) as cluster:
            cluster.start_coordinator()
            port = free_port()
            cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}"])
            load = ["rcbench", "--transport", "verbs", "--records", 1000, "--value-bytes", 1000, "--json"]
            cluster.run(*load, "--load-only")
            before = sent(port)
            report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--batch", 16, "--outstanding", 4,
                                            "--warmup-s", 0, "--duration-s", 3).stdout)
            after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
            payload, gathered, chunks, copied, lent, _ = (int(after[name] - before[name]) for name in after)
            print(f"{report['operations']} multi-reads of 16 x 1000 B: {payload} B given to the device, of them "
                  f"{100 * (payload - gathered) / payload:.2f} % copied by us; {chunks} pieces from the log, {copied} long "
                  f"ones copied; {lent} lent and given back")
            self.assertEqual(report["errors"], {})
            self.assertLess((payload - gathered) / payload, 0.05)
            self.assertGreater(chunks, 16 * 50)
            self.assertEqual(copied, 0)
            self.assertEqual(lent, chunks)

    def test_a_peer_that_dies_again_and_again_leaves_nothing_behind(self):
        with Cluster(servers=1, secret=SECRET, transports=("verbs",)) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "x" * 20000)
            server = cluster.servers["s1"].process.pid

            def die():
                """A client that is killed while it reads large values."""
                load = cluster.start("rcbench", "--transport", "verbs", "--table", "u", "--records", 5, "--value-bytes",
                                     30000, "--outstanding", 8, "--warmup-s", 0, "--duration-s", 60, "--announce",
                                     "/dev/stderr")
                if load.stderr.readline().strip() != "measuring":
                    raise Failed(load.communicate()[1])
                load.kill()
                load.communicate()

            def settled():
                """When nobody but the daemons is left, and their sessions with the dead have ended."""
                before = kernel_counts()
                return before if before["qp"] == quiet["qp"] else None

            die()
            quiet = wait_for(kernel_counts, lambda counts: counts["qp"] <= 6, 60)  # one of each device, two sessions of daemons
            for _ in range(10):
                die()
            begin = wait_for(settled, lambda counts: counts is not None, 60)
            begin_kb = resident_kb(server)
            for _ in range(DEATHS):
                die()
            end = wait_for(settled, lambda counts: counts is not None, 60)
            end_kb = resident_kb(server)
            print(f"{DEATHS} deaths: {begin} before, {end} after; resident {begin_kb} kB before, {end_kb} kB after")
            self.assertEqual(end, begin)
            self.assertLess(end_kb, begin_kb + 4096)
            self.assertEqual(cluster.rc("get", "t", "k").strip(), "x" * 20000)
            warnings = [line for line in cluster.servers["s1"].log().splitlines() if "error" in line]
            self.assertEqual(warnings, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
