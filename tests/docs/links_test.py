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


# Files that a README need not name: itself, and those that every folder has.
UNNAMED = re.compile(r"^(README\.md|CMakeLists\.txt)$")


def unnamed(files, readme):
    """Those files of a folder that its README does not name: `log_roll.cc`, or `log_roll.h` for both."""
    named = set(re.findall(r"[\w.-]+", readme))
    stems = {name.rsplit(".", 1)[0] for name in named if "." in name}
    return sorted(file for file in files if not UNNAMED.match(file) and file not in named
                  and not (file.endswith(".cc") and file[:-len(".cc")] in stems))


class Readmes(unittest.TestCase):
    def test_name_every_file_of_their_folder(self):
        for folder, _, files in os.walk(os.path.join(ROOT, "src")):
            if not files:
                continue
            path = os.path.join(os.path.relpath(folder, ROOT), "README.md")
            with self.subTest(path):
                readme = read_file(path)
                self.assertIsNotNone(readme, "the folder has no README.md")
                self.assertEqual(unnamed(files, readme), [])

    def test_find_what_is_not_named(self):
        files = ["README.md", "log.h", "log.cc", "log_roll.cc", "cleaner.h"]
        self.assertEqual(unnamed(files, "`log.h` and `log_roll.cc`"), ["cleaner.h"])
        self.assertEqual(unnamed(files, "`log.cc`, `cleaner.h`"), ["log.h", "log_roll.cc"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
