#!/usr/bin/env python3
"""Links in the documents lead somewhere: to a file that is there, and to a heading that it has."""

import os
import re
import subprocess
import unittest

ROOT = os.environ.get("RAMCORE_SOURCE_DIR") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def anchors_of(text):
    """The names that headings have as targets of links, as common viewers make them."""
    anchors = set()
    for heading in re.findall(r"^#+ +(.*?) *$", FENCE.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while (one := name if number == 0 else f"{name}-{number}") in anchors:
            number += 1
        anchors.add(one)
    return anchors


def broken(path, text, read):
    """The links of one document that lead nowhere. read(path) gives a file's text; None: there is none."""
    found = []
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        content = text if there == path else read(there)
        if content is None or (anchor and anchor not in anchors_of(content)):
            found.append(target)
    return found


def read_file(path):
    whole = os.path.join(ROOT, path)
    if os.path.isdir(whole):
        return ""
    if not os.path.isfile(whole):
        return None
    with open(whole, encoding="utf-8", errors="replace") as file:
        return file.read()


class LinksTest(unittest.TestCase):
    def test_the_links_of_the_documents(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True, check=False)
        documents = listed.stdout.split() if listed.returncode == 0 else [
            os.path.relpath(os.path.join(folder, name), ROOT)
            for top in ("docs", "src", "tests", "tools") for folder, _, names in os.walk(os.path.join(ROOT, top))
            for name in names if name.endswith(".md")] + ["README.md"]
        self.assertIn("docs/operating.md", documents)
        self.assertEqual({path: bad for path in documents if (bad := broken(path, read_file(path), read_file))}, {})

    def test_a_link_that_leads_nowhere_is_found(self):
        files = {"docs/a.md": "# One two\n## What a `--flag`, or two, is\n## One two\n"}
        text = "# Own\n[1](a.md) [2](a.md#one-two) [3](#own) [4](a.md#what-a---flag-or-two-is) [5](a.md#one-two-1)\n"
        self.assertEqual(broken("docs/b.md", text, files.get), [])
        text = "[1](c.md) [2](a.md#one) [3](#own) [4](../a.md) [5](a.md#one-two-2)\n```\n# own\n```\n"
        self.assertEqual(broken("docs/b.md", text, files.get), ["c.md", "a.md#one", "#own", "../a.md", "a.md#one-two-2"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
