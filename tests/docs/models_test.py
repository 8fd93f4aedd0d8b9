#!/usr/bin/env python3
"""The rules and the steps of the models of a move are those that docs/migration.md explains, and the code that it names is
there."""

import os
import re
import sys
import unittest

ROOT = os.path.abspath(os.environ.get("RAMCORE_SOURCE_DIR") or
                       os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
import hand_over_model  # noqa: E402
import move_results_model  # noqa: E402
import return_model  # noqa: E402

STEPS_HEADERS = {hand_over_model: "| Stored step | Source | Destination | List; owner |",
                 return_model: "| Stored step of a return | Source | Destination | List; owner |"}


def table(text, header, columns=2):
    """The rows of the table with this header, as lists of cells."""
    lines = text.split(header + "\n|" + "---|" * columns + "\n", 1)[1].splitlines()
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


class Models(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(ROOT, "docs", "migration.md"), encoding="utf-8") as document:
            self.text = document.read()
        self.rows = table(self.text, "| Rule | Kept in |")
        self.rows_of_return = table(self.text, "| Rule of a return | Kept in |")

    def test_the_steps_are_those_of_the_model(self):
        for model, header in STEPS_HEADERS.items():
            with self.subTest(model=model.__name__):
                rows = table(self.text, header, 4)
                self.assertEqual({row[0]: row[3] for row in rows}, {step: listed for step, (_, listed) in model.STEPS.items()})
                # The model knows them all, and no other.
                self.assertEqual({w.c for w in self.walked(model)}, {c for c, _ in model.STEPS.values()})

    @staticmethod
    def walked(model):
        """Worlds that the model comes to with all rules, until it has come to each step."""
        rules = frozenset(model.RULES)
        seen, left = set(), list(model.beginnings(rules))
        while left and len({w.c for w in seen}) < len({c for c, _ in model.STEPS.values()}):
            world = left.pop(0)
            if world not in seen:
                seen.add(world)
                left += [after for _, after in model.steps(world, rules)]
        return seen

    def test_every_rule_is_explained_and_no_other(self):
        rules = set(hand_over_model.RULES) | set(move_results_model.RULES)
        self.assertEqual({rule for rule, _ in self.rows}, rules)
        self.assertEqual({rule for rule, _ in self.rows_of_return}, set(return_model.RULES))

    def test_what_keeps_a_rule_is_there(self):
        for rule, places in self.rows + self.rows_of_return:
            named = re.findall(r"`([^`]*)`", places)
            self.assertTrue(named, rule)
            for place in named:
                with self.subTest(rule=rule, place=place):
                    if "/" in place:
                        self.assertTrue(os.path.isfile(os.path.join(ROOT, "src", place)), place)
                    else:
                        self.assertTrue(self.is_function(*place.split("::")), place)

    @staticmethod
    def is_function(owner, function):
        for folder, _, files in os.walk(os.path.join(ROOT, "src", "store")):
            for name in files:
                with open(os.path.join(folder, name), encoding="utf-8") as source:
                    if name.endswith(".cc") and f"{owner}::{function}(" in source.read():
                        return True
        return False


if __name__ == "__main__":
    unittest.main()
