"""Two network namespaces, joined by one wire that can be cut without either end noticing: frames are just not passed on.
One is for the coordinator, the other one for everybody else. Needs root."""

import json
import os
import subprocess

from cluster_harness import Failed

SERVERS, COORDINATOR = "10.77.0.1", "10.77.0.2"


class CutNetwork:
    """As long as the block lasts."""

    def __init__(self):
        self.servers = f"ramcore-{os.getpid()}-servers"
        self.coordinator = f"ramcore-{os.getpid()}-coordinator"

    def __enter__(self):
        if os.geteuid() != 0:
            raise Failed("making a network namespace needs root")
        try:
            for name in (self.servers, self.coordinator):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            # The servers' end is a bridge, which keeps its address when the wire at it is down.
            inside = ("-n", self.servers)
            ip(*inside, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", self.coordinator)
            ip(*inside, "link", "add", "switch", "type", "bridge", "mcast_snooping", "0")
            ip(*inside, "link", "set", "wire", "master", "switch")
            ip(*inside, "address", "add", SERVERS + "/24", "dev", "switch")
            ip("-n", self.coordinator, "address", "add", COORDINATOR + "/24", "dev", "wire")
            for end in ((*inside, "link", "set", "switch"), (*inside, "link", "set", "wire"), ("-n", self.coordinator, "link", "set", "wire")):
                ip(*end, "up")
            # Known for good: who asks for an address again does so once a second, and that is no part of what is measured.
            ip(*inside, "neighbour", "add", COORDINATOR, "lladdr", hardware_address(self.coordinator, "wire"), "dev", "switch", "nud", "permanent")
            ip("-n", self.coordinator, "neighbour", "add", SERVERS, "lladdr", hardware_address(self.servers, "switch"), "dev", "wire", "nud", "permanent")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind, value, traceback):
        self.remove()
        return False

    def remove(self):
        for name in (self.servers, self.coordinator):
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)

    def prefix(self, place):
        """What stands in front of a command line of the coordinator, or of anybody else."""
        return ["ip", "netns", "exec", self.coordinator if place == "coordinator" else self.servers]

    def address(self, place):
        return COORDINATOR if place == "coordinator" else SERVERS

    def cut(self):
        """What is sent from now on is lost; connections stay, and nobody is told."""
        ip("-n", self.servers, "link", "set", "wire", "down")

    def mend(self):
        ip("-n", self.servers, "link", "set", "wire", "up")


def hardware_address(namespace, device):
    return json.loads(ip("-n", namespace, "-json", "link", "show", device))[0]["address"]


def ip(*arguments):
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
