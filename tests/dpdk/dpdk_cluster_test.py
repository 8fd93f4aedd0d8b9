#!/usr/bin/env python3
"""A cluster whose processes have nothing but Ethernet ports of DPDK: what is written is there after moves under load and
after the death of a server, also where the network loses, copies, reorders and changes frames. Run by tests/dpdk/run."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from adapter_scenario import live_through  # noqa: E402
from cluster_harness import run, wait_for  # noqa: E402
from dpdk_fabric import MemifCluster, PacketCluster  # noqa: E402
from metrics_endpoint import free_port, scrape  # noqa: E402

def sent(port):
    """What the server has given to its ports, and what became of the values that it lent for that."""
    metrics = scrape(port)[0]

    def of_dpdk(name):
        return int(metrics[f'ramcore_sent_{name}_total{{transport="dpdk"}}'])
    return {"payload": of_dpdk("payload_bytes"), "gathered": of_dpdk("gathered_bytes"), "pieces": of_dpdk("chunks"),
            "copied": of_dpdk("long_chunks_copied"), "lent": int(metrics["ramcore_pins_total"]),
            "back": int(metrics["ramcore_pins_ended_total"])}


class DpdkClusterTest(unittest.TestCase):
    def run_cluster(self, fabric, faults=""):
        with fabric(servers=4, replicas=2, memory="96MiB", storage="384MiB", death_after_ms=8000,
                    faults=faults) as cluster:
            status = cluster.wait_status(lambda now: now["servers"] and all(one["answers"] for one in now["servers"]))
            for server in status["servers"]:
                self.assertIn("dpdk", server["transports"])
                self.assertTrue(all(locator.startswith("dpdk://") for locator in server["locators"]), server)
            # Also between servers, which could reach each other over nothing else.
            for process in [*status["servers"], status["coordinator"]]:
                self.assertGreater(process["sessions"], 0, process)
                self.assertEqual(process["sessions_by_transport"]["dpdk"], process["sessions"], process)
            # Some values take many packets.
            live_through(self, cluster, long_bytes=60000)
            for daemon in [cluster.coordinator, *cluster.servers.values()]:
                self.assertNotIn("no honest peer", daemon.log())
                self.assertEqual("frames that arrive are disturbed" in daemon.log(), bool(faults))

    def test_multi_reads_are_sent_from_the_log(self):
        """All but heads and the ends of frames; a build that copies once more (the mutation) is found out."""
        with MemifCluster(servers=1, autostart=False) as cluster:
            cluster.start_coordinator()
            port = free_port()
            cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}"])
            load = ["rcbench", "--transport", "dpdk", "--records", 1000, "--value-bytes", 1000, "--json"]
            cluster.run(*load, "--load-only")
            before = sent(port)
            report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--batch", 16, "--outstanding", 4,
                                            "--warmup-s", 0, "--duration-s", 3).stdout)
            after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
            payload, gathered, pieces, copied, lent, _ = (after[name] - before[name] for name in after)
            print(f"{report['operations']} multi-reads of 16 x 1000 B: {payload} B given to ports, of them "
                  f"{100 * (payload - gathered) / payload:.2f} % copied by us; {pieces} pieces from the log, {copied} long "
                  f"ones copied; {lent} values lent and given back")
            self.assertEqual(report["errors"], {})
            self.assertLess((payload - gathered) / payload, 0.05)
            self.assertEqual(copied, 0)
            self.assertGreater(lent, 16 * 50)
            # The end of a frame cuts values in two.
            self.assertGreaterEqual(pieces, lent)

    def test_a_coordinator_is_found_by_its_number(self):
        """Whoever listens with that number at the bridge answers, wherever it is; another number is nobody's."""
        with PacketCluster(autostart=False) as cluster:
            cluster.start_coordinator()
            number = cluster.coordinator_locator().rpartition("@")[2]

            def call(locator, *arguments, check=True):
                command = cluster.arguments("ramcore", *arguments)
                command[command.index(cluster.coordinator_locator())] = locator
                return run(command, check=check)
            self.assertEqual(call(f"dpdk://any@{number}", "list").stdout, "")
            missing = call(f"dpdk://any@{int(number) + 1}", "--timeout-ms", "500", "list", check=False)
            self.assertEqual(missing.returncode, 1, missing.stderr)
            self.assertRegex(missing.stderr, r"no (coordinator answers|answer)")

    def test_over_memifs(self):
        self.run_cluster(MemifCluster)

    def test_over_a_bridge(self):
        self.run_cluster(PacketCluster)

    def test_over_a_bridge_that_loses_1_per_cent(self):
        self.run_cluster(PacketCluster, "loss=1,duplicate=1,reorder=1,corrupt=0.1")

    def test_over_a_bridge_that_loses_5_per_cent(self):
        self.run_cluster(PacketCluster, "loss=5,duplicate=5,reorder=5,corrupt=1")

    def test_over_a_bridge_that_loses_20_per_cent(self):
        self.run_cluster(PacketCluster, "loss=20,duplicate=10,reorder=10,corrupt=1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
