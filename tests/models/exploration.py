"""Goes through every state that a model can reach, breadth first, and shows the shortest way into one that is forbidden.

A model is a module with
  RULES            {name: what the protocol does}; each can be switched off, and then something has to go wrong
  beginnings(on)   the worlds that it starts in; `on` is the set of rules that hold
  steps(world, on) gives (what happens, next world); raises Violation where a property is broken
  covered(worlds)  what a run with all rules has to have met, as {name: count}: a property of what never happens shows nothing
Worlds are values: equal ones are visited once.
"""

import argparse
import gc
import sys
import time


class Violation(Exception):
    """A property of the model is broken by a step: `what` happens, and `why` that is forbidden."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


class Outcome:
    """What an exploration found: how many states, and the steps into the forbidden one, if there is one."""

    def __init__(self):
        self.worlds = {}
        self.seconds = 0
        self.violation = None
        self.way = []

    @property
    def states(self):
        return len(self.worlds)

    def end_with(self, violation, last, came_from):
        self.violation = violation
        while last is not None:
            last, what = came_from[last]
            self.way.insert(0, what)


def explore(model, on):
    """From one beginning after the other, until something forbidden is found."""
    outcome = Outcome()
    begin = time.monotonic()
    # Worlds have no reference cycles, and looking for some among hundreds of thousands of them is a sixth of the time.
    gc.disable()
    for beginning in model.beginnings(on):
        explore_from(beginning, model, on, outcome)
        if outcome.violation:
            break
    gc.enable()
    outcome.seconds = time.monotonic() - begin
    return outcome


def explore_from(beginning, model, on, outcome):
    came_from = outcome.worlds
    came_from[beginning] = (None, "at the beginning")
    edge = [beginning]
    while edge:
        reached = []
        for world in edge:
            steps = model.steps(world, on)
            while True:
                try:
                    what, after = next(steps)
                except StopIteration:
                    break
                except Violation as violation:
                    return outcome.end_with(violation, world, came_from)
                if after not in came_from:
                    came_from[after] = (world, what)
                    reached.append(after)
        edge = reached
    return None


def holds(model):
    """Whether the protocol as it is keeps its properties, and has been where they matter."""
    outcome = explore(model, frozenset(model.RULES))
    print(f"all rules: {outcome.states} states in {outcome.seconds:.1f} s, "
          + (f"FAILED: {outcome.violation}" if outcome.violation else "every property holds"), flush=True)
    for what in outcome.way if outcome.violation else []:
        print(f"    {what}")
    met = model.covered(outcome.worlds)
    print("  met: " + ", ".join(f"{name} {count}" for name, count in met.items()), flush=True)
    return not outcome.violation and all(met.values())


def fails_without(model, rule, verbose=True):
    """Whether leaving out the rule is found."""
    outcome = explore(model, frozenset(model.RULES) - {rule})
    print(f"without {rule}: {outcome.states} states in {outcome.seconds:.1f} s, "
          + (f"found: {outcome.violation}" if outcome.violation else "NOTHING FOUND: the rule is not needed here"), flush=True)
    for what in outcome.way if verbose and outcome.violation else []:
        print(f"    {what}")
    return bool(outcome.violation)


def main(model):
    parser = argparse.ArgumentParser(description=model.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without", choices=model.RULES, metavar="RULE", help="only this: leave out one rule and show what happens. "
                        + "; ".join(f"{name}: {what}" for name, what in model.RULES.items()))
    options = parser.parse_args()
    if options.without:
        return 0 if fails_without(model, options.without) else 1
    good = holds(model)
    for rule in model.RULES:
        good = fails_without(model, rule, verbose=False) and good
    return 0 if good else 1


def run(name):
    """For the end of a model's file."""
    sys.exit(main(sys.modules[name]))
