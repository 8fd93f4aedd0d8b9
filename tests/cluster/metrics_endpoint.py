"""What a process of a test says at its --metrics."""

import re
import socket
import subprocess
import sys
import urllib.request


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def scrape(port):
    """{name with labels: value} and the names of all families."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return parse(answer.read().decode())


def scrape_inside(prefix, port):
    """The same of a process in another network namespace, which commands are in that begin with `prefix`."""
    ask = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"
    return parse(subprocess.run([*prefix, sys.executable, "-c", ask, f"http://127.0.0.1:{port}/metrics"], check=True,
                                capture_output=True, text=True).stdout)


def parse(text):
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            values[name] = float(value)
    families = set(re.findall(r"^# TYPE (ramcore_\S+) ", text, re.MULTILINE))
    return values, families
